package sdk

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

// HTTPHandler answers what the agent's home node and direct callers POST, for an agent whose endpoint is HTTP. Serve it at the endpoint's URL. Each
// delivery must bring a ticket of the home node for just this caller, agent and capability; the agent must be attached (Run).
// Readiness probes are answered, and what was run already is refused.
func (a *Agent) HTTPHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			writeProblem(w, envelope.Errorf(envelope.Unsupported, envelope.StepDecode, "an agent answers POST, not %.20s", r.Method))
			return
		}
		if err := a.delivered(w, r); err != nil {
			writeProblem(w, err)
		}
	})
}

// delivered answers one delivery. An error means that nothing of an answer was written.
func (a *Agent) delivered(w http.ResponseWriter, r *http.Request) error {
	e, ticket, err := a.readDelivery(w, r)
	if err != nil {
		return err
	}
	home := a.home()
	if home == nil {
		return envelope.Errorf(envelope.Unreachable, envelope.StepTicket, "%s is not attached to a node yet", a.id)
	}
	now := time.Now().Add(home.offset)
	probe, err := a.admit(home, e, ticket, now)
	if err != nil {
		return err
	}
	page := &page{w: w, control: http.NewResponseController(w)}
	defer page.close()
	if probe {
		return a.answerProbe(e, page)
	}
	if err := a.replays.accept(&e.Header, now); err != nil {
		return err
	}
	err = a.answer(r.Context(), e, timeout(r, &e.Header), page.part)
	if page.begun {
		return nil // the caller is gone: nobody to tell
	}
	if err != nil && envelope.AsError(err).Code.NotRun() {
		a.replays.forget(&e.Header)
	}
	return err
}

func (a *Agent) readDelivery(w http.ResponseWriter, r *http.Request) (*envelope.Envelope, []byte, error) {
	limit := a.cfg.maxPayload + envelope.Overhead + envelope.MaxTicket
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	if _, over := err.(*http.MaxBytesError); over {
		return nil, nil, envelope.Errorf(envelope.TooLarge, envelope.StepSize, "body is over %d bytes; the payload limit is %d", limit, a.cfg.maxPayload)
	}
	if err != nil {
		return nil, nil, envelope.Errorf(envelope.Malformed, envelope.StepDecode, "body cannot be read: %v", err)
	}
	e, ticket, err := envelope.Decode(body, a.cfg.maxPayload)
	if err == nil && ticket == nil {
		err = envelope.Errorf(envelope.Forbidden, envelope.StepTicket, "the delivery brings no ticket").
			WithHint("call through a node, or look up and bring the ticket that you got")
	}
	return e, ticket, err
}

// admit checks that the home node lets e's source ask this of this agent, that the source said it, and when. probe: it is the node's own
// question whether the agent is ready.
func (a *Agent) admit(h *home, e *envelope.Envelope, ticket []byte, now time.Time) (probe bool, err error) {
	t, err := envelope.OpenTicket(ticket, h.key, now)
	if err != nil {
		return false, err
	}
	if probe, err = a.ticketFits(h, &t, e); err != nil {
		return false, err
	}
	if err := a.verifier.Verify(e, t.CallerKey); err != nil {
		return false, err
	}
	return probe, checkClock(&e.Header, now)
}

// ticketFits checks that the ticket is for this very message. One without capability is good for a probe by the node, and for a request that names
// none either.
func (a *Agent) ticketFits(h *home, t *envelope.Ticket, e *envelope.Envelope) (probe bool, err error) {
	if e.Header.MsgType == envelope.Heartbeat && t.Capability == "" && t.Caller == h.id && t.CallerKey == h.key {
		return true, t.Admits(e, a.id)
	}
	o, err := a.find(&e.Header)
	if err != nil {
		return false, err
	}
	named := t.Capability == o.Name || t.Capability == "" && e.Header.TargetCapability == ""
	if !named || t.Caller != e.Header.SourceAgent || t.Agent != a.id {
		return false, envelope.Errorf(envelope.Forbidden, envelope.StepTicket, "ticket lets %s call %q on %s, not %s call %q on %s",
			t.Caller, t.Capability, t.Agent, e.Header.SourceAgent, o.Name, a.id)
	}
	return false, nil
}

// answerProbe says that the agent is ready: any response of its own does.
func (a *Agent) answerProbe(e *envelope.Envelope, p *page) error {
	r := &responder{agent: a, request: &e.Header, out: p.part, release: func() {}}
	return r.finish(nil)
}

// timeout is when the caller stops waiting.
func timeout(r *http.Request, h *envelope.Header) time.Time {
	wait := h.TTL()
	if ms, err := strconv.ParseUint(r.Header.Get(timeoutHeader), 10, 32); err == nil {
		wait = min(wait, time.Duration(ms)*time.Millisecond)
	}
	return time.Now().Add(wait)
}

// slowReader is how long a caller may take for one part.
const slowReader = 30 * time.Second

// page writes the parts of one answer: a single last one as a document, else one a line.
type page struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (p *page) part(e *envelope.Envelope, last bool) error {
	doc, err := e.AppendDocument(nil, nil)
	if err != nil {
		return err
	}
	p.control.SetWriteDeadline(time.Now().Add(slowReader)) // where the connection can
	h := p.w.Header()
	switch {
	case !p.begun && last:
		h.Set("Content-Type", jsonType)
		h.Set("Content-Length", strconv.Itoa(len(doc)))
	case !p.begun:
		h.Set("Content-Type", linesType)
	}
	if !last || p.begun {
		doc = append(doc, '\n')
	}
	p.begun = true
	if _, err := p.w.Write(doc); err != nil {
		return gone(err)
	}
	if err := p.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return gone(err)
	}
	return nil
}

func gone(err error) error {
	return envelope.Errorf(envelope.Timeout, envelope.StepAnswer, "the caller stopped reading its answer: %v", err)
}

// close leaves the connection's next request without this one's deadline.
func (p *page) close() { p.control.SetWriteDeadline(time.Time{}) }
