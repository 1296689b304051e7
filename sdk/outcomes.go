package sdk

import (
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// outcome says how one direct call went; the node learns from it as from its own calls.
type outcome struct {
	Ticket  jsontext.Value `json:"ticket"`
	OK      bool           `json:"ok"`
	Code    string         `json:"code"`
	Latency float64        `json:"latency_ms"`
}

const (
	maxOutcomes = 256         // waiting; more would make one heartbeat too heavy
	reportAfter = time.Second // the first one waits at most so long for others
)

// outcomes are those that the next heartbeat reports.
type outcomes struct {
	mu   sync.Mutex
	list []outcome
	lost int // found no room
}

// add notes an outcome, and reports how many wait now.
func (o *outcomes) add(one outcome) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) >= maxOutcomes {
		o.lost++
		return len(o.list)
	}
	o.list = append(o.list, one)
	return len(o.list)
}

func (o *outcomes) take() (list []outcome, lost int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	list, lost = o.list, o.lost
	o.list, o.lost = nil, 0
	return list, lost
}

// giveBack puts what could not be reported in front again, as far as there is room.
func (o *outcomes) giveBack(list []outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := maxOutcomes - len(o.list)
	kept := list[max(len(list)-room, 0):]
	o.lost += len(list) - len(kept)
	o.list = append(kept[:len(kept):len(kept)], o.list...)
}

// report notes how a direct call went, for a heartbeat that is soon to come. What follows with the same ticket is not asked for.
func (a *Agent) report(at *seat, took time.Duration, err error) {
	if !at.told.CompareAndSwap(false, true) {
		return
	}
	one := outcome{Ticket: at.Ticket, OK: true, Latency: float64(took) / float64(time.Millisecond)}
	var own *AgentError
	switch {
	case err == nil, errors.Is(err, errEnough):
	case errors.As(err, &own): // one that the agent meant is no fault of its path
		one.Code, one.OK = string(envelope.AgentFailed), own.Code != string(envelope.AgentFailed)
	default:
		one.Code, one.OK = string(envelope.AsError(err).Code), false
	}
	switch a.outcomes.add(one) {
	case 1:
		poke(a.soon)
	case maxOutcomes / 2:
		poke(a.beat)
	}
}
