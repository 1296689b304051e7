package reach

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// Mode is how the first candidate is picked; the others follow by score.
type Mode string

// The modes of routing.select_mode.
const (
	Best           Mode = "best"            // the highest score
	WeightedRandom Mode = "weighted_random" // drawn among the top N in proportion to their scores
	RoundRobin     Mode = "round_robin"     // one after the other
	ByHash         Mode = "hash"            // the same agent for the same conversation_id, as long as it is there
)

// Routing is how candidates are chosen and tried.
type Routing struct {
	Mode     Mode
	TopN     int  // for WeightedRandom
	Retry    bool // try the next candidate when the last one certainly did not run the request, or may repeat it
	MaxRetry int  // hand-overs beyond the first
}

// IngressConfig is what an Ingress works with.
type IngressConfig struct {
	Node      string // this node's id
	Admission *Admission
	Directory Directory
	Schemas   Schemas
	Paths     *Paths
	Home      *Home
	Peers     Peers // nil: a node without peers
	Observer  Observer
	Routing   Routing
	Random    func() float64 // in [0, 1), safe for concurrent use; default math/rand/v2
}

// Ingress takes requests from callers. It is safe for concurrent use.
type Ingress struct {
	IngressConfig
	turn atomic.Uint64 // of round robin
	ways sync.Pool     // of *way: 3 KiB each that need not be made anew for every request
}

// NewIngress makes an Ingress.
func NewIngress(cfg IngressConfig) *Ingress {
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	return &Ingress{IngressConfig: cfg, ways: sync.Pool{New: func() any { return new(way) }}}
}

// Reach carries a request to the agent that can answer it best now, and the parts of the answer to sink.
//
// Errors: every code of protocol 3.0 but AgentFailed: what an agent says went wrong is an answer like any other. NotRun codes mean that no agent
// executed the request.
func (in *Ingress) Reach(ctx context.Context, m *Message, sink Sink) error {
	w := in.begin(m)
	err := w.lap(envelope.StepSeal, w.admit())
	if err == nil {
		err = w.lap(envelope.StepResolve, w.resolve())
	}
	if err == nil {
		err = w.lap(envelope.StepCheck, w.check())
	}
	if err == nil {
		err = w.lap(envelope.StepChoose, w.choose())
	}
	if err == nil {
		err = w.forward(ctx, sink)
	}
	return w.finish(err)
}

// way is one request's way through an Ingress.
type way struct {
	in     *Ingress
	m      *Message
	target envelope.Target
	pool   []Ranked // who may answer; after choose in the order in which they are tried
	turned bool     // the pool begins with the one whose turn it is

	began, lapped time.Time
	tried         int // hand-overs
	last          *Ranked
	failed        bool // the agent answered with an error of its own
	ran           bool // a try that failed may have run the request
	reason        string
	inAgents      time.Duration

	array [poolSize]Ranked
}

// poolSize bounds the candidates that one request looks at, however many there are.
const poolSize = 32

func (in *Ingress) begin(m *Message) *way {
	w := in.ways.Get().(*way)
	w.in, w.m, w.began = in, m, time.Now()
	w.lapped = w.began
	w.pool = w.array[:0]
	if ttl := w.began.Add(m.Header.TTL()); m.Deadline.IsZero() || m.Deadline.After(ttl) {
		m.Deadline = ttl
	}
	return w
}

func (w *way) admit() error { return w.in.Admission.Admit(w.m, w.began) }

// lap tells the observer of a step that has just ended.
func (w *way) lap(step envelope.Step, err error) error {
	now := time.Now()
	if err != nil {
		step = cmp.Or(envelope.AsError(err).Step, step)
	}
	w.in.observe(Event{Step: step, Message: w.m, Duration: now.Sub(w.lapped), Err: err})
	w.lapped = now
	return err
}

func (w *way) finish(err error) error {
	if err != nil {
		err = envelope.AsError(err).WithTrace(w.m.Header.TraceID)
	}
	ev := Event{
		Step: envelope.StepCall, Message: w.m, Reason: w.reason, Err: err,
		Duration: time.Since(w.began), Agents: w.inAgents, Retries: max(w.tried-1, 0),
	}
	if err == nil && w.failed {
		ev.Err = envelope.Errorf(envelope.AgentFailed, envelope.StepAnswer, "%s answered with an error", w.last.Agent)
	}
	if w.last != nil {
		ev.Agent, ev.Node = w.last.Agent, w.last.Node
	}
	w.in.observe(ev)
	w.release()
	return err
}

// release gives w back. Nobody may use it, or what its pool holds, afterwards.
func (w *way) release() {
	in := w.in
	*w = way{}
	in.ways.Put(w)
}

func (in *Ingress) observe(ev Event) {
	if in.Observer != nil {
		in.Observer.Observe(ev)
	}
}

// why is the reason of a choice for logs: "weighted_random 1 of 3, score 9.80".
func (w *way) why(place int, r *Ranked) string {
	b := make([]byte, 0, 48)
	b = append(b, w.in.Routing.Mode...)
	if w.m.Header.TargetAgent != "" {
		b = append(b[:0], "target_agent"...)
	}
	b = strconv.AppendInt(append(b, ' '), int64(place+1), 10)
	b = strconv.AppendInt(append(b, " of "...), int64(len(w.pool)), 10)
	b = strconv.AppendFloat(append(b, ", score "...), r.Score, 'f', 2, 64)
	return string(b)
}
