package reach

import (
	"context"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Message is an envelope under way, with what nodes add to it outside the seal. Envelope never changes; the rest is this node's.
type Message struct {
	*envelope.Envelope
	Deadline time.Time // when the caller stops waiting; zero: until ttl_sec has passed since arrival
	HopsLeft int       // nodes that may still pass it on
	Attempts int       // hand-overs tried so far, over all nodes
	// FromLoopback: the caller's connection comes from this machine. Where no permission table is configured, only those may call.
	FromLoopback bool
}

// Sink takes the parts of an answer in order. Its error ends the call. It is never called by two goroutines at once.
type Sink func(part *envelope.Envelope) error

// Directory answers which records could serve a target. Both look-ups are from one immutable snapshot each, take no lock, and
// their results must not be changed.
type Directory interface {
	Agent(id string) *envelope.Record
	Capability(name string) []envelope.Candidate
}

// Peers sends a message to another node, for the agent chosen there.
//
// Errors: Unreachable when certainly nothing was handed over; Timeout when it may have run; whatever the home node said.
type Peers interface {
	Send(ctx context.Context, node, agent string, m *Message, sink Sink) error
}

// Agent is an agent attached here, behind whatever protocol it speaks. ctx carries the deadline.
//
// Errors: Unreachable when certainly nothing was handed over; Timeout when it may have run; Overloaded when the agent refused to take it.
// An agent's own error is no error here: it is a part whose status says so.
type Agent interface {
	Call(ctx context.Context, m *Message, sink Sink) error
}

// Keys finds the key that a source's seals are checked with.
type Keys interface {
	Key(agent string) (envelope.PublicKey, bool)
}

// Schemas checks payloads against compiled schemas.
type Schemas interface {
	Check(id envelope.SchemaID, payload []byte) error
}

// Observer is told of every step of every message: all metrics, logs and traces hang on it. It must not block.
type Observer interface {
	Observe(Event)
}

// Judgement is what a hand-over says of its path.
type Judgement int8

// The judgements. Unjudged: the caller's doing, or a full queue here; it says nothing of the path. Declined: the agent answered with an error that it
// meant.
const (
	Unjudged Judgement = iota
	Worked
	Declined
	Failed
)

// Event is one step done, or the whole way (Step StepCall). At StepDecode, a message's arrival, Message is nil where it could not be decoded.
type Event struct {
	Step     envelope.Step
	Message  *Message
	Agent    string // the candidate, from StepForward on
	Node     string // its home node
	Reason   string // why this candidate: "weighted_random 1 of 3, score 9.8"
	Duration time.Duration
	Path     Judgement     // StepForward: what the hand-over says of the path
	Err      error         // AgentFailed also where Reach returns nil, because the agent answered with an error of its own
	Retries  int           // StepCall: hand-overs beyond the first
	Agents   time.Duration // StepCall: time spent in agents and their queues; Duration - Agents is the routing overhead
}
