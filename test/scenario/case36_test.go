package scenario

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// helpsWithClock reports whether an error speaks of the clock, and tells the offset within two seconds of want (positive: the sender is ahead).
func helpsWithClock(text string, want time.Duration) error {
	if !strings.Contains(text, "clock") || !strings.Contains(text, "NTP") {
		return fmt.Errorf("no word of the clock and of NTP in: %s", text)
	}
	_, after, _ := strings.Cut(text, "measured offset ")
	said, _, _ := strings.Cut(after, " s")
	seconds, err := strconv.ParseFloat(said, 64)
	if diff := seconds - want.Seconds(); err != nil || diff < -2 || diff > 2 {
		return fmt.Errorf("the offset is %v, told is %q in: %s", want, said, text)
	}
	return nil
}

// TestCase36ClockSkew: 100 s either way is borne, in calls and in registrations; beyond it the error says that it is the clock, and by how much.
func TestCase36ClockSkew(t *testing.T) {
	n := startNode(t, nil)
	serveEcho(t, n, "echo", "echo.say")
	for _, skew := range []time.Duration{100 * time.Second, -100 * time.Second} {
		v := newVoice(t, n, fmt.Sprintf("skewed%.0f", skew.Seconds()))
		if r := v.registerAt(skew); r.status != http.StatusOK {
			t.Errorf("a registration %v off: %s", skew, r.body)
		}
		if r := v.askAt(skew); r.status != http.StatusOK {
			t.Errorf("a call %v off: %s", skew, r.body)
		}
	}
	for skew, code := range map[time.Duration]envelope.Code{
		125 * time.Second: envelope.ClockSkew, time.Hour: envelope.ClockSkew,
		-155 * time.Second: envelope.Expired, -time.Hour: envelope.Expired,
	} {
		v := newVoice(t, n, fmt.Sprintf("far%.0f", skew.Seconds()))
		for what, r := range map[string]reply{"a registration": v.registerAt(skew), "a call": registered(t, n, "v"+v.id).askAt(skew)} {
			p := r.problem(t)
			if p.Code != code || p.Status != code.HTTPStatus() {
				t.Errorf("%s %v off: %d %s", what, skew, r.status, r.body)
			}
			if err := helpsWithClock(p.Detail+" "+p.Hint, skew); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, there := n.agents(t)[v.id]; there {
			t.Errorf("%v off, and registered", skew)
		}
	}
}

func (v *voice) registerAt(skew time.Duration) reply {
	v.t.Helper()
	h := v.header(envelope.Register, "")
	h.ToNode = v.node.id(v.t)
	h.Timestamp.Time = h.Timestamp.Add(skew)
	return v.post("/v1/agents", v.document(h, v.descriptor()))
}

func (v *voice) askAt(skew time.Duration) reply {
	v.t.Helper()
	h := v.header(envelope.Request, "echo.say")
	h.Timestamp.Time = h.Timestamp.Add(skew)
	return v.post("/v1/messages", v.document(h, `{}`))
}

// TestCase36PythonWithAWrongClock: agents and callers whose clocks are 100 s off work; those 300 s off are told why at once, and do not go on trying.
func TestCase36PythonWithAWrongClock(t *testing.T) {
	n := startNode(t, nil)
	pythonAgent(t, n, "fast", "fast.echo=echo", "--shift", "100")
	pythonAgent(t, n, "slow", "slow.echo=echo", "--shift", "-100", "--http", strconv.Itoa(freePort(t)))
	for _, shift := range []string{"100", "-100"} {
		c := newPythonCaller(t, n, "caller"+shift, "--shift", shift)
		for _, capability := range []string{"fast.echo", "slow.echo"} {
			if r := c.call(t, map[string]any{"target_capability": capability, "payload": map[string]int{}}); !r.OK {
				t.Errorf("a caller %s s off calls %s: %+v", shift, capability, r)
			}
		}
	}
	for shift, code := range map[string]string{"300": "clock_skew", "-300": "expired"} {
		r := newPythonCaller(t, n, "far"+shift, "--shift", shift).call(t, map[string]any{"target_capability": "fast.echo"})
		seconds, err := strconv.Atoi(shift)
		must(t, err)
		if r.OK || r.Code != code {
			t.Errorf("a caller %s s off: %+v", shift, r)
		}
		if err := helpsWithClock(r.Text+" "+r.Hint, time.Duration(seconds)*time.Second); err != nil {
			t.Error(err)
		}
		p := runPython(t, n, nil, "python/agent.py", "lost", "lost.echo=echo", "--shift", shift)
		p.says(t, "clock")
		if exit := p.exit(t); exit == 0 {
			t.Errorf("an agent %s s off exits with 0", shift)
		}
	}
}
