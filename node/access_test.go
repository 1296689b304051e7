package node

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

func message(t testing.TB) *reach.Message {
	e, err := envelope.New(envelope.Header{
		MsgID: "m1", TraceID: "t1", MsgType: envelope.Request, SourceAgent: "order", TargetCapability: "stock.query",
		Timestamp: envelope.Timestamp{Time: time.Now()},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &reach.Message{Envelope: e}
}

func TestAccessLogWritesOneLineForACall(t *testing.T) {
	var calls, steps bytes.Buffer
	log := NewAccessLog(jsonLogger(&calls, slog.LevelInfo), jsonLogger(&steps, slog.LevelInfo))
	m := message(t)
	log.Observe(reach.Event{Step: envelope.StepResolve, Message: m})
	log.Observe(reach.Event{
		Step: envelope.StepCall, Message: m, Agent: "inventory", Node: "n1", Reason: "best, score 9.8", Duration: 1500 * time.Microsecond,
		Err: envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "no answer"),
	})
	if steps.Len() > 0 {
		t.Errorf("steps at info: %s", steps.String())
	}
	var line map[string]any
	if err := json.Unmarshal(calls.Bytes(), &line); err != nil {
		t.Fatalf("not one line of JSON: %v: %s", err, calls.String())
	}
	for key, want := range map[string]any{
		"msg_id": "m1", "trace_id": "t1", "caller": "order", "capability": "stock.query", "agent": "inventory", "node": "n1",
		"reason": "best, score 9.8", "duration_ms": 1.5, "outcome": "timeout",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, not %v", key, line[key], want)
		}
	}
	if line["time"] == nil {
		t.Error("no time")
	}
}

func TestFailedStepsAreLoggedByWhoMustMendThem(t *testing.T) {
	for code, want := range map[envelope.Code]string{
		envelope.Forbidden: "DEBUG", envelope.SchemaError: "DEBUG", envelope.Unreachable: "WARN", envelope.BadSeal: "WARN", envelope.Internal: "ERROR",
	} {
		var steps bytes.Buffer
		log := NewAccessLog(nil, jsonLogger(&steps, slog.LevelDebug))
		err := envelope.Errorf(code, envelope.StepForward, "said so")
		log.Observe(reach.Event{Step: envelope.StepForward, Message: message(t), Agent: "inventory", Err: err})
		log.Observe(reach.Event{Step: envelope.StepCall, Message: message(t), Err: err}) // no access log
		got := steps.String()
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, `"level":"`+want+`"`) || !strings.Contains(got, `"trace_id":"t1"`) ||
			!strings.Contains(got, "said so") || !strings.Contains(got, `"outcome":"`+string(code)+`"`) {
			t.Errorf("%s: %s", code, got)
		}
	}
}

func TestACancelledCallIsNoFault(t *testing.T) {
	if got := outcome(context.Canceled); got != "cancelled" {
		t.Errorf("got %s", got)
	}
}

func TestASuppressedLineAllocatesNothing(t *testing.T) {
	log := NewAccessLog(nil, jsonLogger(&bytes.Buffer{}, slog.LevelError))
	e := reach.Event{Step: envelope.StepChoose, Message: message(t)}
	if n := testing.AllocsPerRun(100, func() { log.Observe(e) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLoggerFormats(t *testing.T) {
	for format, want := range map[string]string{"auto": `"msg":"up"`, "json": `"msg":"up"`, "text": "INF up id=7"} {
		path := filepath.Join(t.TempDir(), "log")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		log := LoggingConfig{Level: "info", Format: format}.Logger(f)
		log.Debug("hidden")
		log.Info("up", "id", 7, "text", "\x1b[2J\n\u202e")
		f.Close()
		got, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(got), want) || strings.Contains(string(got), "hidden") ||
			strings.Contains(string(got), "\x1b") || strings.Count(string(got), "\n") != 1 {
			t.Errorf("%s: %v: %s", format, err, got)
		}
	}
}

func BenchmarkAccessLine(b *testing.B) {
	log := NewAccessLog(slog.New(slog.NewJSONHandler(discard{}, nil)), slog.New(slog.DiscardHandler))
	e := reach.Event{Step: envelope.StepCall, Message: message(b), Agent: "inventory", Node: "n1", Reason: "best, score 9.8", Duration: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		log.Observe(e)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func jsonLogger(w *bytes.Buffer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
