package sdk

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
)

// Call is one request; Capability or Agent must be set, the rest is optional.
type Call struct {
	Capability   string        // "stock.query", or with a version range "stock.query@^1.2"
	Agent        string        // only this agent
	Input        any           // as JSON; a jsontext.Value stands as it is, nil is no payload
	TTL          time.Duration // how long the answer is waited for; default 60 s, at most 24 h; an earlier deadline of ctx counts
	Priority     int           // 1, most urgent, to 9; default 5
	Conversation string        // where nodes choose by hash, the same conversation finds the same agent
	Trace        string        // trace_id; default: that of the request being handled, else the msg_id
	MsgID        string        // default: a new one. The same id again is not run a second time
	Direct       bool          // POST to the agent itself where it can be, with a ticket; else through the node
}

// CallOption sets one thing of a Call.
type CallOption func(*Call)

// ToAgent asks only the agent with this id.
func ToAgent(id string) CallOption { return func(c *Call) { c.Agent = id } }

// TTL sets how long the answer is waited for: Call.TTL.
func TTL(d time.Duration) CallOption { return func(c *Call) { c.TTL = d } }

// Priority sets the urgency: 1, most urgent, to 9.
func Priority(n int) CallOption { return func(c *Call) { c.Priority = n } }

// Conversation sets the conversation_id.
func Conversation(id string) CallOption { return func(c *Call) { c.Conversation = id } }

// Direct calls the agent without the hop over its node, where it can be: Call.Direct.
func Direct() CallOption { return func(c *Call) { c.Direct = true } }

// Trace sets the trace_id.
func Trace(id string) CallOption { return func(c *Call) { c.Trace = id } }

// MsgID sets the msg_id.
func MsgID(id string) CallOption { return func(c *Call) { c.MsgID = id } }

// Response is an answer, or one part of it.
type Response struct {
	Header   envelope.Header
	Payload  []byte        // JSON, or nothing
	Agent    string        // who answered
	Direct   bool          // without a node in between
	Duration time.Duration // since the call
}

// Decode reads the payload into v. An answer without payload leaves v as it is.
func (r *Response) Decode(v any) error {
	if v == nil || len(r.Payload) == 0 {
		return nil
	}
	if raw, ok := v.(*jsontext.Value); ok {
		*raw = r.Payload
		return nil
	}
	if err := json.Unmarshal(r.Payload, v); err != nil {
		return envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "the answer of %s does not fit into %T: %v", r.Agent, v, err)
	}
	return nil
}

// Call asks for a capability and reads the answer into out, which may be nil.
//
// Errors: *AgentError; *envelope.Error with every code of protocol 3.0.
func (a *Agent) Call(ctx context.Context, capability string, in, out any, options ...CallOption) error {
	r, err := a.Do(ctx, newCall(capability, in, options))
	if err != nil {
		return err
	}
	return r.Decode(out)
}

func newCall(capability string, in any, options []CallOption) Call {
	c := Call{Capability: capability, Input: in}
	for _, o := range options {
		o(&c)
	}
	return c
}

// Do is Call with the whole answer. An answer of several parts is an error, Unsupported: ask with Stream.
func (a *Agent) Do(ctx context.Context, c Call) (*Response, error) {
	var answer *Response
	err := a.ask(ctx, c, func(r *Response) error {
		if answer != nil {
			return envelope.Errorf(envelope.Unsupported, envelope.StepAnswer, "%s answers in parts", r.Agent).WithHint("ask with Stream")
		}
		answer = r
		return nil
	})
	if err == nil && answer == nil {
		err = envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "the call ended without an answer")
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// errEnough ends a call whose asker wants no more parts.
var errEnough = envelope.Errorf(envelope.Timeout, envelope.StepCall, "the asker wants no more parts")

// Stream asks for a capability and yields the parts of the answer as they come. An error is the last thing it yields. Leaving the loop
// cancels the call.
func (a *Agent) Stream(ctx context.Context, capability string, in any, options ...CallOption) iter.Seq2[*Response, error] {
	return func(yield func(*Response, error) bool) {
		left := false
		err := a.ask(ctx, newCall(capability, in, options), func(r *Response) error {
			if !yield(r, nil) {
				left = true
				return errEnough
			}
			return nil
		})
		if err != nil && !left {
			yield(nil, err)
		}
	}
}

// ask seals the call and takes its answer, part by part, to take. A part that says error ends it as *AgentError.
func (a *Agent) ask(ctx context.Context, c Call, take func(*Response) error) error {
	q, err := a.question(ctx, &c, envelope.Request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadline(ctx, q.deadline)
	defer cancel()
	q.take = func(part *envelope.Envelope, direct bool) error {
		if part.Header.Status == envelope.StatusError {
			return agentError(&part.Header)
		}
		return take(&Response{part.Header, part.Payload, part.Header.SourceAgent, direct, time.Since(q.began)})
	}
	if c.Direct {
		if done, err := a.askDirect(ctx, q, &c); done {
			return err
		}
	}
	return a.askNode(ctx, q)
}

// question is a request, and what its answer needs.
type question struct {
	*envelope.Envelope // as sealed last; nil before
	header             envelope.Header
	payload            []byte
	began              time.Time
	deadline           time.Time
	from               string // who must answer; empty: any agent
	take               func(part *envelope.Envelope, direct bool) error
}

func (a *Agent) question(ctx context.Context, c *Call, kind envelope.MsgType) (*question, error) {
	payload, err := encode(c.Input)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	deadline := now.Add(cmp.Or(c.TTL, envelope.DefaultTTL*time.Second))
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	from := carried(ctx)
	if len(from.chain) > envelope.MaxChain {
		return nil, envelope.Errorf(envelope.Loop, envelope.StepCall, "this call would be asked on behalf of %d agents; the limit is %d", len(from.chain), envelope.MaxChain).
			WithHint("agents are calling each other in a circle, or too deep: %v", from.chain)
	}
	h := envelope.Header{
		MsgID: cmp.Or(c.MsgID, newID()), MsgType: kind, TraceID: cmp.Or(c.Trace, from.traceID), Traceparent: from.traceparent,
		TargetCapability: c.Capability, TargetAgent: c.Agent, Chain: from.chain, Priority: c.Priority, ConversationID: c.Conversation,
	}
	return &question{header: h, payload: payload, began: now, deadline: deadline, from: c.Agent}, nil
}

// seal makes the message of now: what waited for a node, or is sent again, would else be old when it gets there.
func (q *question) seal(a *Agent) (err error) {
	q.header.TTLSec = seconds(time.Until(q.deadline))
	q.Envelope, err = a.sealed(q.header, q.payload)
	return err
}

// seconds is d in whole seconds, rounded up, as ttl_sec allows it. What is below a second, the link's deadline says.
func seconds(d time.Duration) int { return max(int((d+time.Second-1)/time.Second), 1) }

const (
	// maxRetries is how often a request that was certainly not handed over is sent again.
	maxRetries = 2
	retryPause = 50 * time.Millisecond // doubled each time, with jitter
	maxHops    = 3                     // nodes that may pass the request on
)

// askNode sends q through the node; again where it was certainly not handed over.
func (a *Agent) askNode(ctx context.Context, q *question) error {
	for try := 0; ; try++ {
		s, err := a.attached(ctx)
		if err != nil {
			return err // waiting is attached's
		}
		err = s.ask(ctx, q, try)
		if err == nil || try == maxRetries || !a.again(err) || !sleep(ctx, jitter(retryPause<<try)) {
			return outcomeOf(ctx, err)
		}
	}
}

// outcomeOf is a call's error, with that of ctx if it has ended.
func outcomeOf(ctx context.Context, err error) error {
	var coded *envelope.Error
	if errors.As(err, &coded) {
		return ended(ctx, coded)
	}
	return err
}

func (s *session) ask(ctx context.Context, q *question, attempts int) error {
	if err := q.seal(s.agent); err != nil {
		return err
	}
	hop := link.Hop{Deadline: q.deadline, HopsLeft: maxHops, Priority: q.Header.Priority, Attempts: attempts}
	return s.link.Call(ctx, q.Envelope, hop, func(part *envelope.Envelope) error {
		if err := belongs(q.Envelope, part, q.from); err != nil {
			return err
		}
		if err := s.proven(ctx, part); err != nil {
			return err
		}
		return q.take(part, false)
	})
}

// proven checks the seal of an answer with the key of who gave it.
func (s *session) proven(ctx context.Context, part *envelope.Envelope) error {
	from := part.Header.SourceAgent
	if from == s.home.id {
		return answerFault(from, s.agent.verifier.Verify(part, s.home.key))
	}
	return s.agent.keys.verify(ctx, s, part)
}
