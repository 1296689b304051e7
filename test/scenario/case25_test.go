package scenario

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/sdk"
)

// emptyForms are the answers with nothing in them, by the names that python/agent.py uses; "" is a payload of zero bytes.
var emptyForms = map[string]string{"object": `{}`, "null": `null`, "string": `""`, "bytes": ""}

type emptyQuestion struct {
	Form string `json:"form"`
}

// answerEmpty answers in the form that is asked for.
func answerEmpty(_ context.Context, r *sdk.Request) (any, error) {
	var asked emptyQuestion
	if err := r.Decode(&asked); err != nil {
		return nil, err
	}
	return jsontext.Value(emptyForms[asked.Form]), nil
}

// emptyServer is a plain web server that does so.
func emptyServer(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked emptyQuestion
		_ = json.UnmarshalRead(r.Body, &asked)
		if asked.Form == "bytes" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = w.Write([]byte(emptyForms[asked.Form]))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestCase25EmptyAnswer: an answer with nothing in it is an answer, whoever gives it, however it travels, and whoever asks.
func TestCase25EmptyAnswer(t *testing.T) {
	n := startNode(t, nil)
	linked, served := newAgent(t, n, "go-link"), newHTTPAgent(t, n, "go-http", nil)
	for _, a := range []*sdk.Agent{linked, served} {
		a.Handle(offer("empty.ask"), answerEmpty)
		serve(t, a)
	}
	attach(t, n, "plain", "empty.ask", emptyServer(t))
	agents := []string{"go-link", "go-http", "plain"}
	if havePython() {
		pythonAgent(t, n, "py-link", "empty.ask=empty")
		pythonAgent(t, n, "py-http", "empty.ask=empty", "--http", strconv.Itoa(freePort(t)))
		agents = append(agents, "py-link", "py-http")
	}
	callers := map[string]func(agent, form string) (payload, fault string){
		"Go": goEmpty(t, newAgent(t, n, "go-caller"), false), "Go direct": goEmpty(t, newAgent(t, n, "go-direct"), true),
		"HTTP": httpEmpty(t, registered(t, n, "http-caller")), "command line": cliEmpty(t, n),
	}
	if havePython() {
		c := newPythonCaller(t, n, "py-caller")
		callers["Python"], callers["Python direct"] = pythonEmpty(t, c, false), pythonEmpty(t, c, true)
	}
	for who, ask := range callers {
		for _, agent := range agents {
			for form, want := range emptyForms {
				if got, fault := ask(agent, form); got != want || fault != "" {
					t.Errorf("%s asks %s for %s: %q, %s", who, agent, form, got, fault)
				}
			}
		}
	}
}

type emptyAsker func(agent, form string) (payload, fault string)

func goEmpty(t *testing.T, a *sdk.Agent, direct bool) emptyAsker {
	return func(agent, form string) (string, string) {
		r, err := a.Do(short(t), sdk.Call{Capability: "empty.ask", Agent: agent, Input: map[string]string{"form": form}, Direct: direct})
		if err != nil {
			return "", err.Error()
		}
		return string(r.Payload), ""
	}
}

func httpEmpty(t *testing.T, v *voice) emptyAsker {
	return func(agent, form string) (string, string) {
		h := v.header(envelope.Request, "empty.ask")
		h.TargetAgent = agent
		r := v.post("/v1/messages", v.document(h, `{"form":"`+form+`"}`))
		if r.status != http.StatusOK {
			return "", string(r.body)
		}
		return string(r.answer(t).Payload), ""
	}
}

// cliEmpty runs the program for one form only: it is a process for each call.
func cliEmpty(t *testing.T, n *node) emptyAsker {
	return func(agent, form string) (string, string) {
		if form != "null" && form != "bytes" {
			return emptyForms[form], ""
		}
		v := n.callView(t, "empty.ask", `{"form":"`+form+`"}`, "--agent", agent)
		return string(v.Payload), ""
	}
}

func pythonEmpty(t *testing.T, c *pythonCaller, direct bool) emptyAsker {
	return func(agent, form string) (string, string) {
		r := c.call(t, map[string]any{
			"target_capability": "empty.ask", "target_agent": agent, "payload": map[string]string{"form": form}, "direct": direct,
		})
		return string(r.Payload), r.Code + r.Text
	}
}
