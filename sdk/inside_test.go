package sdk

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

func header(id string, at time.Time) *envelope.Header {
	return &envelope.Header{SourceAgent: "a", MsgID: id, TTLSec: 60, Timestamp: envelope.Timestamp{Time: at}}
}

func TestSealerUnderLoad(t *testing.T) {
	key := envelope.GenerateKey()
	s := sealer{key: key}
	var group sync.WaitGroup
	var mu sync.Mutex
	shared := 0
	for i := range 64 {
		group.Go(func() {
			for j := range 20 {
				h := *header(fmt.Sprintf("m-%d-%d", i, j), time.Now())
				h.MsgType, h.TargetAgent = envelope.Request, "b"
				e, err := envelope.New(h, []byte(`{}`))
				if err != nil {
					t.Error(err)
					return
				}
				s.seal(e)
				if err := e.Verify(key.Public()); err != nil {
					t.Error(err)
				}
				mu.Lock()
				if e.Seal.Leaves > 1 {
					shared++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if s.signing || len(s.waiting) != 0 {
		t.Errorf("at rest: signing %v, waiting %d", s.signing, len(s.waiting))
	}
	t.Logf("%d of 1280 shared a signature", shared)
}

func TestReplaysForgetOnlyWhatTheyRefuse(t *testing.T) {
	var r replays
	now := time.Unix(1_700_000_000, 0)
	for i := range maxReplays + 10_000 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		h := header(fmt.Sprint(i), at)
		if err := r.accept(h, at); err != nil {
			t.Fatalf("%d was refused: %v", i, err)
		}
		if i%997 == 0 {
			if err := r.accept(h, at); !errors.Is(err, envelope.Duplicate) {
				t.Fatalf("%d again: %v", i, err)
			}
		}
	}
	if r.n > maxReplays {
		t.Errorf("%d ids are remembered", r.n)
	}
	for i := 0; i < maxReplays+10_000; i += 1009 {
		at := now.Add(time.Duration(i) * time.Millisecond)
		if err := r.accept(header(fmt.Sprint(i), at), at); err == nil {
			t.Fatalf("%d would run a second time", i)
		}
	}
	h := header("once more", now.Add(time.Hour))
	for range 2 {
		if err := r.accept(h, h.Timestamp.Time); err != nil {
			t.Error(err)
		}
		r.forget(h)
	}
}

func TestErrorObjectsFit(t *testing.T) {
	long := strings.Repeat("\x00é\xff", 2000)
	for _, err := range []error{
		errors.New(long), &AgentError{Code: long, Text: long}, &AgentError{Text: "x", Raw: jsontext.Value(`{"code":"c"}`)},
		&AgentError{Code: "c", Text: "t", Raw: jsontext.Value(`"` + strings.Repeat("x", 5000) + `"`)},
	} {
		o := errorObject(err)
		if len(o) > maxErrorObject || !o.IsValid() {
			t.Errorf("%d bytes: %.80s", len(o), o)
		}
		h := envelope.Header{
			MsgID: strings.Repeat("m", 128), TraceID: strings.Repeat("t", 128), InReplyTo: strings.Repeat("r", 128), ConversationID: strings.Repeat("c", 128),
			Traceparent: strings.Repeat("p", 128), SourceAgent: strings.Repeat("a", 128), TargetAgent: strings.Repeat("b", 128),
			TargetCapability: strings.Repeat("c", 128) + "@>=111.222.333", MsgType: envelope.Response, Status: envelope.StatusError, Error: o,
			Timestamp: envelope.Timestamp{Time: time.Now()},
		}
		if _, err := envelope.New(h, nil); err != nil {
			t.Errorf("no header can carry it: %v", err)
		}
	}
}

func TestOutcomesAreBounded(t *testing.T) {
	var o outcomes
	for range maxOutcomes + 5 {
		o.add(outcome{})
	}
	list, lost := o.take()
	if len(list) != maxOutcomes || lost != 5 {
		t.Errorf("%d kept, %d lost", len(list), lost)
	}
	o.add(outcome{Code: "new"})
	o.giveBack(list)
	if list, lost = o.take(); len(list) != maxOutcomes || lost != 1 || list[maxOutcomes-1].Code != "new" {
		t.Errorf("%d kept, %d lost", len(list), lost)
	}
}

func TestOrderDrawsByScore(t *testing.T) {
	list := []*seat{{Candidate: Candidate{Agent: "a", Score: 8}}, {Candidate: Candidate{Agent: "b", Score: 2}}, {Candidate: Candidate{Agent: "c"}}, {Candidate: Candidate{Agent: "d", Score: 9}}}
	first := map[string]int{}
	for range 2000 {
		o := order(list, &Call{})
		if len(o) != 3 {
			t.Fatalf("%d are tried", len(o))
		}
		first[o[0].Agent]++
	}
	if first["c"] > 0 || first["d"] > 0 || first["b"] < 250 || first["b"] > 550 {
		t.Errorf("first were %v", first)
	}
	if o := order(list, &Call{Conversation: "x"}); o[0].Agent != "a" || o[1].Agent != "b" {
		t.Error("a conversation changes the node's order")
	}
}

func FuzzReadKey(f *testing.F) {
	f.Add(`{"agent_id":"a","public_key":"` + envelope.GenerateKey().Public().String() + `"}`)
	f.Add(`{"capabilities":[{"public_key":1}],"public_key":null}`)
	f.Fuzz(func(t *testing.T, doc string) {
		key, err := readKey(strings.NewReader(doc))
		if err == nil && key.IsZero() {
			t.Error("no key and no error")
		}
	})
}

func FuzzErrorObject(f *testing.F) {
	f.Add("code", "text", `{"code":"a","text":"b"}`)
	f.Fuzz(func(t *testing.T, code, text, raw string) {
		o := errorObject(&AgentError{Code: code, Text: text, Raw: jsontext.Value(raw)})
		var said struct {
			Code string `json:"code"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(o, &said); err != nil || len(o) > maxErrorObject {
			t.Errorf("%d bytes, %v: %s", len(o), err, o)
		}
		e := agentError(&envelope.Header{Error: o, SourceAgent: "a"})
		if e.Code == "" {
			t.Errorf("no code: %+v", e)
		}
	})
}

func FuzzProblem(f *testing.F) {
	f.Add([]byte(`{"type":"x","code":"overloaded","retry_after_ms":1000,"places":[{"pointer":"/a","text":"b"}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if e, ok := decodeProblem(doc); ok && (e.Code == "" || e.RetryAfter < 0) {
			t.Errorf("%+v", e)
		}
	})
}
