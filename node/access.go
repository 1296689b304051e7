package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// Logger makes a logger of the configured level and format that writes to w.
func (c LoggingConfig) Logger(w *os.File) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // LoadConfig has refused the word
	}
	terminal := isTerminal(w)
	if c.Format == "text" || c.Format != "json" && terminal {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: "2006-01-02T15:04:05.000Z07:00", NoColor: !terminal}))
	}
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}

func isTerminal(w *os.File) bool {
	info, err := w.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// accessLog writes one line for each finished call, and one for each step that failed on the way; both carry the trace id.
type accessLog struct {
	calls *slog.Logger // nil: not wanted
	steps *slog.Logger
}

// NewAccessLog makes the observer that logs. calls gets the finished calls at level info, and may be nil; steps gets, at debug, every
// step, and those whose failure is the operator's business at warn or error.
func NewAccessLog(calls, steps *slog.Logger) reach.Observer { return &accessLog{calls, steps} }

// Observe logs one event. A line that its level suppresses costs no allocation.
func (a *accessLog) Observe(e reach.Event) {
	switch {
	case e.Message == nil: // what could not be decoded: its sender is told, and it has no trace
		return
	case e.Step == envelope.StepCall:
		a.call(&e)
	default:
		a.step(&e)
	}
}

func (a *accessLog) call(e *reach.Event) {
	ctx := context.Background()
	if a.calls == nil || !a.calls.Enabled(ctx, slog.LevelInfo) {
		return
	}
	h := &e.Message.Header
	a.calls.LogAttrs(ctx, slog.LevelInfo, "call",
		slog.String("msg_id", h.MsgID),
		slog.String("trace_id", h.TraceID),
		slog.String("caller", h.SourceAgent),
		slog.String("capability", h.TargetCapability),
		slog.String("agent", orTarget(e)),
		slog.String("node", e.Node),
		slog.String("reason", e.Reason),
		slog.Float64("duration_ms", milliseconds(e.Duration)),
		slog.String("outcome", outcome(e.Err)))
}

func (a *accessLog) step(e *reach.Event) {
	ctx := context.Background()
	level := levelOf(e.Err)
	if !a.steps.Enabled(ctx, level) {
		return
	}
	h := &e.Message.Header
	attrs := [...]slog.Attr{
		slog.String("trace_id", h.TraceID),
		slog.String("step", string(e.Step)),
		slog.String("msg_id", h.MsgID),
		slog.String("caller", h.SourceAgent),
		slog.String("capability", h.TargetCapability),
		slog.String("agent", orTarget(e)),
		slog.String("node", e.Node),
		slog.Float64("duration_ms", milliseconds(e.Duration)),
		slog.String("outcome", outcome(e.Err)),
		{},
	}
	if e.Err == nil {
		a.steps.LogAttrs(ctx, level, "step", attrs[:len(attrs)-1]...)
		return
	}
	attrs[len(attrs)-1] = slog.String("err", e.Err.Error())
	a.steps.LogAttrs(ctx, level, "step failed", attrs[:]...)
}

// levelOf is how much a step's outcome concerns the operator. What only the caller can mend is debug: the access log has its code.
func levelOf(err error) slog.Level {
	if err == nil {
		return slog.LevelDebug
	}
	switch envelope.AsError(err).Code {
	case envelope.Internal:
		return slog.LevelError
	case envelope.Unreachable, envelope.Timeout, envelope.BadSeal, envelope.ClockSkew, envelope.Conflict, envelope.Loop:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func orTarget(e *reach.Event) string {
	if e.Agent != "" {
		return e.Agent
	}
	return e.Message.Header.TargetAgent
}

// outcome is the error's code, or ok.
func outcome(err error) string {
	if err == nil {
		return envelope.StatusOK
	}
	if errors.Is(err, context.Canceled) {
		return "cancelled"
	}
	return string(envelope.AsError(err).Code)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
