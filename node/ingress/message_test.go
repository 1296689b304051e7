package ingress

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Case 25: an empty answer is an answer, whatever kind of empty.
func TestEmptyAnswersArrive(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	for _, payload := range []string{"", "{}", "null", `""`, "[]", "0", "false"} {
		request := caller.request("echo", payload)
		g := w.post("/v1/messages", request)
		answer := g.envelope(t)
		if string(answer.Payload) != payload || answer.Header.Status != envelope.StatusOK || answer.Header.InReplyTo != request.Header.MsgID {
			t.Errorf("%q came back as %q: %s", payload, answer.Payload, g.body)
		}
		if g.header.Get(traceHeader) != request.Header.TraceID {
			t.Errorf("trace header %q", g.header.Get(traceHeader))
		}
		if has := strings.Contains(string(g.body), `"payload"`); has != (payload != "") {
			t.Errorf("payload member of %q: %v", payload, has)
		}
	}
}

// The answer's bytes are the agent's: its seal still proves it to the caller.
func TestAnswerKeepsItsSeal(t *testing.T) {
	w := start(t)
	agent := w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	payload := `{"z": 1,  "a":[1.0, "é\u00e9" ] }`
	answer := w.post("/v1/messages", caller.request("echo", payload)).envelope(t)
	if err := answer.Verify(agent.key.Public()); err != nil || string(answer.Payload) != payload {
		t.Fatalf("%v, payload %s", err, answer.Payload)
	}
}

func TestAgentsOwnErrorIsAnAnswer(t *testing.T) {
	w := start(t)
	w.agent("failing", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		return send("error:out of paper")
	}, "print")
	caller := w.caller("caller")
	answer := w.post("/v1/messages", caller.request("print", "1")).envelope(t)
	if answer.Header.Status != envelope.StatusError || !strings.Contains(string(answer.Header.Error), "out of paper") {
		t.Fatalf("%+v", answer.Header)
	}
}

func counting(n int, end error) answering {
	return func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		for i := range n {
			if err := send(strconv.Itoa(i)); err != nil {
				return err
			}
		}
		return end
	}
}

func TestPartsAreLines(t *testing.T) {
	w := start(t)
	w.agent("counter", counting(5, nil), "count")
	caller := w.caller("caller")
	for _, accept := range []string{"application/json", "application/x-ndjson", "text/html, application/x-ndjson;q=0.5"} {
		g := w.post("/v1/messages", caller.request("count", "null"), "Accept", accept)
		if g.status != http.StatusOK || g.header.Get("Content-Type") != linesType {
			t.Fatalf("%d %v", g.status, g.header)
		}
		lines := strings.Split(strings.TrimSuffix(string(g.body), "\n"), "\n")
		if len(lines) != 5 {
			t.Fatalf("%d lines: %s", len(lines), g.body)
		}
		for i, line := range lines {
			if got := string(decode(t, []byte(line)).Payload); got != strconv.Itoa(i) {
				t.Errorf("line %d is %s", i, got)
			}
		}
	}
}

func TestOnePartIsALineWhereAskedFor(t *testing.T) {
	w := start(t)
	w.agent("echoer", echo, "echo")
	caller := w.caller("caller")
	for accept, want := range map[string]string{
		"application/x-ndjson": linesType, "application/x-ndjson;q=0": jsonType, "*/*": jsonType, "application/json": jsonType, ";;,": jsonType,
	} {
		g := w.post("/v1/messages", caller.request("echo", "1"), "Accept", accept)
		if got := g.header.Get("Content-Type"); got != want {
			t.Errorf("Accept %q: %s, want %s", accept, got, want)
		}
	}
}

// A caller that asked for lines has each part before the next one is made.
func TestPartsAreSentAtOnce(t *testing.T) {
	w := start(t)
	next := make(chan string)
	w.agent("teller", func(ctx context.Context, _ *envelope.Envelope, send func(string) error) error {
		for payload := range next {
			if err := send(payload); err != nil {
				return err
			}
		}
		return nil
	}, "tell")
	caller := w.caller("caller")
	next0 := func(s string) {
		select {
		case next <- s:
		case <-time.After(soon):
			t.Error("the agent does not take the next part")
		}
	}
	go next0("0")
	resp, err := w.open(t.Context(), "POST", "/v1/messages", document(t, caller.request("tell", "null")), "Accept", linesType)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		if !lines.Scan() || string(decode(t, lines.Bytes()).Payload) != strconv.Itoa(i) {
			t.Fatalf("part %d: %s %v", i, lines.Text(), lines.Err())
		}
		if i < 2 {
			next0(strconv.Itoa(i + 1))
		}
	}
	close(next)
	if lines.Scan() {
		t.Fatalf("one more line: %s", lines.Text())
	}
}

// Nothing that came is lost when the call fails after it: the error is the last line.
func TestErrorAfterPartsIsTheLastLine(t *testing.T) {
	w := start(t)
	w.agent("breaking", counting(1, envelope.Errorf(envelope.Overloaded, envelope.StepDeliver, "out of breath")), "breathe")
	caller := w.caller("caller")
	for _, accept := range []string{jsonType, linesType} {
		request := caller.request("breathe", "null")
		g := w.post("/v1/messages", request, "Accept", accept)
		first, last, _ := strings.Cut(strings.TrimSpace(string(g.body)), "\n")
		if g.status != http.StatusOK || g.header.Get("Content-Type") != linesType || string(decode(t, []byte(first)).Payload) != "0" {
			t.Fatalf("%d %v %s", g.status, g.header, g.body)
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(last, `{"error":`), "}")
		e := envelope.UnmarshalError([]byte(inner))
		if !errors.Is(e, envelope.Overloaded) || e.Text != "out of breath" || e.TraceID != request.Header.TraceID {
			t.Fatalf("last line %s", last)
		}
	}
}

func TestErrorBeforePartsIsAProblem(t *testing.T) {
	w := start(t)
	w.agent("busy", counting(0, envelope.Errorf(envelope.Overloaded, envelope.StepDeliver, "no room").WithRetryAfter(1500*time.Millisecond)), "work")
	caller := w.caller("caller")
	request := caller.request("work", "null")
	g := w.post("/v1/messages", request, "Accept", linesType)
	p := g.problem(t, envelope.Overloaded, http.StatusTooManyRequests)
	if p.TraceID != request.Header.TraceID || p.RetryAfter != 1500 || g.header.Get("Retry-After") != "2" {
		t.Fatalf("%s %v", g.body, g.header)
	}
}

func TestTroubleWithAnAnswerIsTheGateways(t *testing.T) {
	w := start(t)
	w.agent("mute", counting(0, nil), "speak")
	caller := w.caller("caller")
	g := w.post("/v1/messages", caller.request("speak", "null"))
	if p := g.problem(t, envelope.Malformed, http.StatusBadGateway); p.Step != envelope.StepAnswer {
		t.Fatalf("%s", g.body)
	}
}

// An answer that is no JSON cannot stand in a document; the caller learns that the agent ran.
func TestAnswerThatIsNoJSON(t *testing.T) {
	w := start(t)
	w.agent("raw", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error { return send("\x00\xff") }, "raw")
	caller := w.caller("caller")
	g := w.post("/v1/messages", caller.request("raw", "null"))
	if p := g.problem(t, envelope.Malformed, http.StatusBadGateway); !strings.Contains(p.Hint, "raw ran") {
		t.Fatalf("%s", g.body)
	}
}

func TestTimeoutHeaderShortensACall(t *testing.T) {
	w := start(t)
	asked := make(chan struct{}, 1)
	w.agent("sleeper", func(ctx context.Context, _ *envelope.Envelope, _ func(string) error) error {
		asked <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}, "sleep")
	caller := w.caller("caller")
	began := time.Now()
	g := w.post("/v1/messages", caller.request("sleep", "null"), timeoutHeader, "150")
	g.problem(t, envelope.Timeout, http.StatusGatewayTimeout)
	if took := time.Since(began); took < 140*time.Millisecond || took > soon/2 {
		t.Errorf("took %v", took)
	}
	wait(t, asked, "the agent to be asked")
}

func TestTimeoutHeaderDoesNotLengthenACall(t *testing.T) {
	now := time.Now()
	h := &envelope.Header{TTLSec: 2}
	for value, want := range map[string]time.Duration{"": 2 * time.Second, "1500": 1500 * time.Millisecond, "999999": 2 * time.Second} {
		r := &http.Request{Header: http.Header{}}
		if value != "" {
			r.Header.Set(timeoutHeader, value)
		}
		if got, err := deadlineOf(r, h, now); err != nil || got.Sub(now) != want {
			t.Errorf("%q: %v %v, want %v", value, got.Sub(now), err, want)
		}
	}
	for _, bad := range [][]string{{"0"}, {"-1"}, {"1.5"}, {"x"}, {""}, {"99999999999999"}, {"1", "2"}} {
		if _, err := deadlineOf(&http.Request{Header: http.Header{timeoutHeader: bad}}, h, now); !errors.Is(err, envelope.Malformed) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestCallerThatLeavesGivesUpItsCall(t *testing.T) {
	w := start(t)
	asked, ended := make(chan struct{}, 1), make(chan error, 1)
	w.agent("sleeper", func(ctx context.Context, _ *envelope.Envelope, _ func(string) error) error {
		asked <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	}, "sleep")
	caller := w.caller("caller")
	ctx, leave := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := w.open(ctx, "POST", "/v1/messages", document(t, caller.request("sleep", "null")))
		failed <- err
	}()
	wait(t, asked, "the agent to be asked")
	leave()
	wait(t, ended, "the agent to be told")
	if err := wait(t, failed, "the caller"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestCancelMessage(t *testing.T) {
	w := start(t)
	asked, ended := make(chan struct{}, 1), make(chan error, 1)
	w.agent("sleeper", func(ctx context.Context, _ *envelope.Envelope, _ func(string) error) error {
		asked <- struct{}{}
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	}, "sleep")
	caller, stranger := w.caller("caller"), w.caller("stranger")
	request := caller.request("sleep", "null")
	answered := make(chan got, 1)
	go func() { answered <- w.post("/v1/messages", request) }()
	wait(t, asked, "the agent to be asked")

	cancel := func(p *party) string {
		h := p.header(envelope.Cancel)
		h.InReplyTo = request.Header.MsgID
		answer := w.post("/v1/messages", p.seal(h, "")).envelope(t)
		if err := answer.Verify(w.key.Public()); err != nil || answer.Header.SourceAgent != w.id {
			t.Errorf("%v from %s", err, answer.Header.SourceAgent)
		}
		return string(answer.Payload)
	}
	if got := cancel(stranger); got != `{"cancelled":false}` {
		t.Errorf("a stranger's cancel: %s", got)
	}
	if got := cancel(caller); got != `{"cancelled":true}` {
		t.Errorf("the caller's cancel: %s", got)
	}
	wait(t, ended, "the agent to be told")
	wait(t, answered, "the call to end").problem(t, envelope.Timeout, http.StatusGatewayTimeout)
	if got := cancel(caller); got != `{"cancelled":false}` {
		t.Errorf("a late cancel: %s", got)
	}
}

// Case 21: the same msg_id is never run twice; in flight with other content it is a conflict.
func TestSameMessageTwice(t *testing.T) {
	w := start(t)
	asked, answer := make(chan struct{}, 2), make(chan struct{})
	w.agent("slow", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		asked <- struct{}{}
		<-answer
		return send("1")
	}, "work")
	caller := w.caller("caller")
	request := caller.request("work", "1")
	answered := make(chan got, 1)
	go func() { answered <- w.post("/v1/messages", request) }()
	wait(t, asked, "the agent to be asked")
	w.post("/v1/messages", request).problem(t, envelope.Duplicate, http.StatusConflict)
	w.post("/v1/messages", caller.seal(request.Header, "2")).problem(t, envelope.Conflict, http.StatusConflict)
	close(answer)
	wait(t, answered, "the answer").envelope(t)
	w.post("/v1/messages", request).problem(t, envelope.Duplicate, http.StatusConflict)
	if len(asked) != 0 {
		t.Error("the agent was asked again")
	}
	if left := w.server.flights.open.Size(); left != 0 || w.server.flights.count.Load() != 0 {
		t.Errorf("%d calls still in flight", left)
	}
}

// A forged message with the id of a call in flight neither stops nor outlives it.
func TestForgedTwinDoesNoHarm(t *testing.T) {
	w := start(t)
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	w.agent("slow", func(_ context.Context, _ *envelope.Envelope, send func(string) error) error {
		asked <- struct{}{}
		<-answer
		return send("1")
	}, "work")
	caller := w.caller("caller")
	forger := &party{world: w, id: "caller", key: envelope.GenerateKey()}
	request := caller.request("work", "1")
	answered := make(chan got, 1)
	go func() { answered <- w.post("/v1/messages", request) }()
	wait(t, asked, "the agent to be asked")
	w.post("/v1/messages", forger.seal(request.Header, "2")).problem(t, envelope.BadSeal, http.StatusUnauthorized)
	close(answer)
	wait(t, answered, "the answer").envelope(t)
}
