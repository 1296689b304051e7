package envelope_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

func TestCodes(t *testing.T) {
	for code, status := range map[envelope.Code]int{ // protocol 3.0's table
		"malformed": 400, "too_large": 413, "bad_seal": 401, "unknown_agent": 401, "clock_skew": 400, "expired": 408, "forbidden": 403,
		"schema_invalid": 422, "no_route": 404, "conflict": 409, "duplicate": 409, "overloaded": 429, "unreachable": 502, "timeout": 504,
		"agent_error": 200, "loop": 508, "unsupported": 501, "internal": 500,
	} {
		if code.HTTPStatus() != status || code.Title() == "" {
			t.Errorf("%s: %d %q", code, code.HTTPStatus(), code.Title())
		}
	}
	if s := envelope.Code("of_a_later_version").HTTPStatus(); s != 500 {
		t.Error(s)
	}
	for _, code := range []envelope.Code{envelope.Timeout, envelope.AgentFailed, envelope.Duplicate, envelope.Internal, envelope.Malformed} {
		if code.NotRun() {
			t.Errorf("%s does not promise that nothing ran", code)
		}
	}
}

func TestErrorsMatchByCode(t *testing.T) {
	err := fmt.Errorf("around: %w", envelope.Errorf(envelope.Timeout, envelope.StepDeliver, "no answer in %v", time.Second))
	if !errors.Is(err, envelope.Timeout) || errors.Is(err, envelope.NoRoute) {
		t.Error(err)
	}
	if got := envelope.AsError(err).Error(); got != "timeout at deliver: no answer in 1s" {
		t.Error(got)
	}
}

func TestCopiesOfErrors(t *testing.T) {
	e := envelope.Errorf(envelope.Overloaded, envelope.StepQueue, "full")
	f := e.WithHint("wait %d s", 3).WithRetryAfter(3 * time.Second).WithTrace("t-1")
	if e.Hint != "" || e.RetryAfter != 0 || e.TraceID != "" {
		t.Errorf("the first changed: %+v", e)
	}
	if f.Error() != "overloaded at queue: full (wait 3 s)" || f.RetryAfter != 3*time.Second || f.TraceID != "t-1" || f.WithTrace("t-1") != f {
		t.Errorf("%+v", f)
	}
}

func TestStatusOfABadAnswer(t *testing.T) {
	for _, c := range []struct {
		e      *envelope.Error
		status int
	}{
		{envelope.Errorf(envelope.BadSeal, envelope.StepSeal, ""), 401},
		{envelope.Errorf(envelope.BadSeal, envelope.StepAnswer, ""), 502},
		{envelope.Errorf(envelope.AgentFailed, envelope.StepAnswer, ""), 200},
	} {
		if c.e.HTTPStatus() != c.status {
			t.Errorf("%v: %d", c.e, c.e.HTTPStatus())
		}
	}
}

func TestAsError(t *testing.T) {
	if envelope.AsError(nil) != nil {
		t.Error("something out of nothing")
	}
	if e := envelope.AsError(fmt.Errorf("x: %w", envelope.Loop)); e.Code != envelope.Loop {
		t.Error(e)
	}
	if e := envelope.AsError(context.Canceled); e.Code != envelope.Internal || e.Text != "context canceled" {
		t.Error(e)
	}
	if _, err := envelope.LoadKey("/nowhere/at/all", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the system's error is lost")
	}
}

func TestErrorObjects(t *testing.T) {
	e := envelope.Errorf(envelope.SchemaError, envelope.StepCheck, "payload \u2014 \u5408\u540c").WithHint("see").WithRetryAfter(1500 * time.Millisecond).WithTrace("t")
	e.Places = []envelope.Place{{Pointer: "/sku", Text: "missing"}}
	b := envelope.MarshalError(e)
	if !strings.Contains(string(b), `"retry_after_ms":1500`) {
		t.Errorf("%s", b)
	}
	got := envelope.UnmarshalError(b)
	if got.Error() != e.Error() || got.RetryAfter != e.RetryAfter || got.TraceID != "t" || len(got.Places) != 1 {
		t.Errorf("%+v, want %+v", got, e)
	}
	if b := envelope.MarshalError(&envelope.Error{Code: envelope.Loop}); string(b) != `{"code":"loop"}` {
		t.Errorf("%s", b)
	}
	bad := envelope.Errorf(envelope.Internal, envelope.StepLink, "not \xff UTF-8").WithHint("kept")
	if got := envelope.UnmarshalError(envelope.MarshalError(bad)); got.Code != envelope.Internal || got.Text != "not \ufffd UTF-8" || got.Hint != "kept" {
		t.Errorf("%+v", got)
	}
}

func TestErrorObjectsThatCannotBeRead(t *testing.T) {
	for b, words := range map[string]string{
		"": "EOF", "[]": "an array where an object is wanted", "{}": `code is ""`, `{"code":7}`: "/code", `{"code":"a b"}`: "one small word",
		`{"code":"` + strings.Repeat("x", 33) + `"}`: "one small word", `{"code":"loop","code":"loop"}`: "duplicate", `{"code":"loop","places":{}}`: "/places",
		`{"code":"loop","retry_after_ms":"1"}`: "retry_after_ms", `{"code":"loop"} x`: "after top-level",
	} {
		want(t, envelope.UnmarshalError([]byte(b)), envelope.Malformed, "error object", words)
	}
	if e := envelope.UnmarshalError([]byte(`{"code":"of_a_later_version","news":1}`)); e.Code != "of_a_later_version" {
		t.Error(e)
	}
	if e := envelope.UnmarshalError([]byte(`{"code":"overloaded","retry_after_ms":-5}`)); e.RetryAfter != 0 {
		t.Error(e.RetryAfter)
	}
}
