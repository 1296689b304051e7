package reach

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/agent-reach/agent-reach/envelope"
)

// verdict says whether a candidate may get a request, before its payload is looked at.
type verdict uint8

const (
	fits verdict = iota
	notAvailable
	switchedOff
	otherVersion
	notPermitted
)

// resolve finds who may answer, at most poolSize of them: the available ones; where there are none, the suspect ones rather than nobody.
func (w *way) resolve() error {
	list, err := w.candidates()
	if err != nil {
		return err
	}
	for _, state := range [...]envelope.State{envelope.Available, envelope.Suspect} {
		if w.gather(list, state); len(w.pool) > 0 {
			return nil
		}
	}
	return w.nobody(list)
}

// candidates lists who declares what is asked for, in whatever state, and settles the target.
func (w *way) candidates() ([]envelope.Candidate, error) {
	h := &w.m.Header
	if h.TargetCapability != "" {
		var err error
		if w.target, err = envelope.ParseTarget(h.TargetCapability); err != nil {
			return nil, err
		}
	}
	if h.TargetAgent != "" {
		return w.oneAgent(h.TargetAgent)
	}
	list := w.in.Directory.Capability(w.target.Name)
	if len(list) == 0 {
		return nil, envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "no agent declares %q", w.target.Name).
			WithHint("agent-reach capabilities lists what there is; an agent that just started may need a second")
	}
	return list, nil
}

func (w *way) oneAgent(id string) ([]envelope.Candidate, error) {
	r := w.in.Directory.Agent(id)
	if r == nil {
		return nil, envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "no agent %s is registered", id).
			WithHint("agent-reach agents lists who is there")
	}
	if w.target.Name == "" {
		if len(r.Offers) != 1 {
			return nil, envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "%s declares %d capabilities; say which in target_capability", id, len(r.Offers)).
				WithHint("it declares: %s", offerNames(r))
		}
		w.target.Name = r.Offers[0].Name
	}
	offer := r.Offer(w.target.Name)
	if offer == nil {
		return nil, envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "%s does not declare %q", id, w.target.Name).
			WithHint("it declares: %s", offerNames(r))
	}
	return []envelope.Candidate{{Record: r, Offer: offer}}, nil
}

func offerNames(r *envelope.Record) string {
	names := make([]string, 0, 8)
	for i := range r.Offers {
		if i == 8 {
			names = append(names, "…")
			break
		}
		names = append(names, r.Offers[i].Name)
	}
	if len(names) == 0 {
		return "nothing, it only calls"
	}
	return strings.Join(names, ", ")
}

// gather fills the pool with candidates in that state that fit. A long list is entered at a random place, or at round robin's turn, so that
// a bounded look is fair to all; hash looks at the whole list, since the same conversation must find the same agent.
func (w *way) gather(list []envelope.Candidate, state envelope.State) {
	conversation := w.m.Header.ConversationID
	if w.in.Routing.Mode == ByHash && conversation != "" {
		w.gatherByHash(list, state, xxhash.Sum64String(conversation))
		return
	}
	n, start := len(list), 0
	switch {
	case w.in.Routing.Mode != RoundRobin:
		start = int(w.in.Random() * float64(n))
	case n > poolSize:
		start = int((w.in.turn.Add(1) - 1) % uint64(n))
		w.turned = true
	}
	for i := 0; i < n && len(w.pool) < poolSize; i++ {
		if c := list[(start+i)%n]; w.judge(c, state) == fits {
			w.pool = append(w.pool, Ranked{Candidate: c})
		}
	}
}

// gatherByHash keeps the few candidates with the highest rendezvous weights, the highest first (Thaler and Ravishankar, 1996).
func (w *way) gatherByHash(list []envelope.Candidate, state envelope.State, conversation uint64) {
	keep := w.in.Routing.MaxRetry + 2
	for _, c := range list {
		if w.judge(c, state) != fits {
			continue
		}
		r := Ranked{Candidate: c, weight: mix(conversation ^ xxhash.Sum64String(c.Agent))}
		at := len(w.pool)
		for at > 0 && w.pool[at-1].weight < r.weight {
			at--
		}
		if at >= min(keep, poolSize) {
			continue
		}
		if len(w.pool) < min(keep, poolSize) {
			w.pool = w.pool[:len(w.pool)+1]
		}
		copy(w.pool[at+1:], w.pool[at:])
		w.pool[at] = r
	}
}

// mix is the finaliser of SplitMix64: every input bit changes half of the output bits.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (w *way) judge(c envelope.Candidate, state envelope.State) verdict {
	switch {
	case c.State != state:
		return notAvailable
	case c.Offer.Off:
		return switchedOff
	case !w.target.Admits(c.Offer.Semver):
		return otherVersion
	case !w.in.Admission.permissions(w.m).Allows(w.m.Header.SourceAgent, w.target.Name, c.Agent):
		return notPermitted
	}
	return fits
}

// explained is the error that says why c may not get the request; nil if it may.
func (w *way) explained(c envelope.Candidate, state envelope.State) *envelope.Error {
	switch w.judge(c, state) {
	case notAvailable:
		return envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "%s is %s%s", c.Agent, c.State, because(c.Reason))
	case switchedOff:
		return envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "%s has switched %s off for now", c.Agent, w.target.Name)
	case otherVersion:
		return envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "%s offers version %s, outside %s", c.Agent, c.Offer.Version, w.m.Header.TargetCapability)
	case notPermitted:
		return envelope.AsError(w.in.Admission.permissions(w.m).Check(w.m.Header.SourceAgent, w.target.Name, c.Agent))
	}
	return nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// nobody explains why none of those who declare the capability may answer, naming the first few.
func (w *way) nobody(list []envelope.Candidate) error {
	const named = 5
	var reasons []string
	forbidden := 0
	for i, c := range list {
		e := w.explained(c, envelope.Available)
		if e == nil {
			continue // became available a moment ago
		}
		if e.Code == envelope.Forbidden {
			forbidden++
			if forbidden == len(list) {
				return e
			}
		}
		if i < named {
			reasons = append(reasons, e.Text)
		} else if i == named {
			reasons = append(reasons, fmt.Sprintf("and %d more", len(list)-named))
		}
	}
	return envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "%q is declared, but nobody can answer now: %s", cmp.Or(w.m.Header.TargetCapability, w.target.Name), strings.Join(reasons, "; ")).
		WithHint("agent-reach explain %s shows each candidate", w.target.Name)
}
