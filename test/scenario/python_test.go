package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// python is a Python that has the SDK; without one the test is skipped.
func python(t testing.TB) string {
	t.Helper()
	path := os.Getenv("AGENT_REACH_PYTHON")
	if path == "" {
		t.Skip("not run: AGENT_REACH_PYTHON names no Python that has the SDK")
	}
	return path
}

// havePython reports whether tests of both SDKs can have their Python half.
func havePython() bool { return os.Getenv("AGENT_REACH_PYTHON") != "" }

// runPython starts a Python program in a folder of its own, with the node's address in its environment.
func runPython(t testing.TB, n *node, env []string, file string, args ...string) *process {
	t.Helper()
	path, err := filepath.Abs(file)
	must(t, err)
	return start(t, command{
		name: file, program: python(t), args: append([]string{path}, args...), dir: t.TempDir(),
		env: append([]string{"AGENT_REACH_NODE=" + n.url, "PYTHONUNBUFFERED=1", "PYTHONIOENCODING=utf-8"}, env...),
	})
}

// pythonAgent starts python/agent.py, which offers capabilities as "name=behaviour", and returns when the node has found it ready.
func pythonAgent(t testing.TB, n *node, id string, args ...string) *process {
	t.Helper()
	p := runPython(t, n, nil, "python/agent.py", append([]string{id}, args...)...)
	n.awaitState(t, id, "available")
	return p
}

// pythonCaller is python/caller.py: it is told calls, and tells how they went.
type pythonCaller struct {
	*process
	calls int
}

// pythonResult is what became of one call.
type pythonResult struct {
	Number  int            `json:"number"`
	OK      bool           `json:"ok"`
	Payload jsontext.Value `json:"payload"` // as it came, base64 nowhere: absent when it was no bytes
	Agent   string         `json:"agent"`
	Code    string         `json:"code"`
	Text    string         `json:"text"`
	Hint    string         `json:"hint"`
	Agents  []string       `json:"agents"` // of a broadcast, those that answered
}

func newPythonCaller(t testing.TB, n *node, id string, args ...string) *pythonCaller {
	t.Helper()
	return &pythonCaller{process: runPython(t, n, nil, "python/caller.py", append([]string{id}, args...)...)}
}

// begin sends a call, as fields of a request, and returns its number.
func (c *pythonCaller) begin(t testing.TB, fields map[string]any) int {
	t.Helper()
	c.calls++
	b, err := json.Marshal(map[string]any{"number": c.calls, "request": fields})
	must(t, err)
	c.tell(t, string(b))
	return c.calls
}

// result waits for what became of the call with that number.
func (c *pythonCaller) result(t testing.TB, number int) (r pythonResult) {
	t.Helper()
	text := c.says(t, fmt.Sprintf(`{"number": %d,`, number))
	must(t, json.Unmarshal([]byte(text[strings.IndexByte(text, '{'):]), &r))
	return r
}

// call is begin and result.
func (c *pythonCaller) call(t testing.TB, fields map[string]any) pythonResult {
	t.Helper()
	return c.result(t, c.begin(t, fields))
}
