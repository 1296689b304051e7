package ingress

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// lookupReply is the answer of POST /v1/lookup, best candidate first.
type lookupReply struct {
	Candidates []directCandidate `json:"candidates"`
	// NotDirect counts candidates that can be reached through a node only.
	NotDirect int `json:"not_direct"`
}

// directCandidate is an agent that the caller may call by itself, until the ticket expires.
type directCandidate struct {
	Agent      string             `json:"agent"`
	Capability string             `json:"capability"`
	Version    string             `json:"version"`
	Endpoint   endpointView       `json:"endpoint"`
	PublicKey  envelope.PublicKey `json:"public_key"` // of the seals of its answers
	Score      float64            `json:"score"`
	Factors    factorsView        `json:"factors"`
	Ticket     jsontext.Value     `json:"ticket"` // goes as it is into the document of the call
}

type endpointView struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// factorsView is what a score is made of, each 0 to 1, the more the better.
type factorsView struct {
	Success  float64 `json:"success"`
	Latency  float64 `json:"latency"`
	Load     float64 `json:"load"`
	Distance float64 `json:"distance"`
}

func viewFactors(f reach.Factors) factorsView {
	return factorsView{f.Success, f.Latency, f.Load, f.Distance}
}

// Candidates that a lookup names.
const (
	defaultCandidates = 3
	maxCandidates     = 32
)

// lookup is POST /v1/lookup?limit=.
func (s *Server) lookup(w http.ResponseWriter, r *http.Request, m *reach.Message) error {
	limit, err := limitOf(r, defaultCandidates, maxCandidates)
	if err != nil {
		return err
	}
	if err := wantRequest(m); err != nil {
		return err
	}
	ranked, err := s.deps.Ingress.Lookup(m, reach.MaxExplained)
	if err != nil {
		return err
	}
	key, ok := s.deps.Keys.Key(m.Header.SourceAgent)
	if !ok {
		return envelope.Errorf(envelope.UnknownAgent, envelope.StepTicket, "the key of %s is not known here, and a ticket names it", m.Header.SourceAgent).
			WithHint("register first, or call through the node")
	}
	reply := lookupReply{Candidates: []directCandidate{}}
	for i := range ranked {
		switch c := &ranked[i]; {
		case !s.direct(c):
			reply.NotDirect++
		case len(reply.Candidates) < limit:
			one, err := s.admitDirect(c, m, key)
			if err != nil {
				return err
			}
			reply.Candidates = append(reply.Candidates, one)
		}
	}
	return writeJSON(w, http.StatusOK, &reply)
}

func wantRequest(m *reach.Message) error {
	if m.Header.MsgType == envelope.Request {
		return nil
	}
	return envelope.Errorf(envelope.Malformed, envelope.StepDecode, "a %s cannot be looked up; send the request that is to be routed", m.Header.MsgType)
}

// direct reports whether a caller may be sent to c: it listens, wants it, checks tickets itself, and takes those of this node.
func (s *Server) direct(c *reach.Ranked) bool {
	at := &c.Descriptor.Endpoint
	return at.Type == envelope.HTTPEndpoint && !at.PreferProxy && c.VouchedBy == "" && c.Node == s.cfg.NodeID
}

func (s *Server) admitDirect(c *reach.Ranked, m *reach.Message, key envelope.PublicKey) (directCandidate, error) {
	ticket, err := envelope.SealTicket(s.cfg.Key, envelope.Ticket{
		ID: rand.Text(), Node: s.cfg.NodeID, Caller: m.Header.SourceAgent, CallerKey: key,
		Capability: c.Offer.Name, Agent: c.Agent, Expires: envelope.Timestamp{Time: ticketEnd(m, time.Now())},
	})
	if err != nil {
		return directCandidate{}, err
	}
	return directCandidate{
		Agent: c.Agent, Capability: c.Offer.Name, Version: c.Offer.Version,
		Endpoint:  endpointView{c.Descriptor.Endpoint.Type, c.Descriptor.Endpoint.URL},
		PublicKey: c.Key, Score: c.Score, Factors: viewFactors(c.Factors), Ticket: ticket,
	}, nil
}

// ticketEnd: no ticket outlives MaxTicketLife, nor the message that asked for it.
func ticketEnd(m *reach.Message, now time.Time) time.Time {
	end := now.Add(min(envelope.MaxTicketLife, m.Header.TTL()))
	return end.UTC().Truncate(time.Millisecond)
}

// explainReply is the answer of POST /v1/explain: who would be tried, in that order, then who is left out.
type explainReply struct {
	Candidates []explained `json:"candidates"`
	Mode       string      `json:"mode"`
	Chosen     string      `json:"chosen,omitzero"` // the agent that would be tried first; drawn anew for each request in some modes
}

type explained struct {
	Agent   string         `json:"agent"`
	Node    string         `json:"node"`
	State   envelope.State `json:"state"`
	Version string         `json:"version"`
	Score   float64        `json:"score"`
	Factors factorsView    `json:"factors"`
	LeftOut *leftOut       `json:"left_out,omitzero"`
}

// leftOut says why a candidate would not be tried.
type leftOut struct {
	Code envelope.Code `json:"code"`
	Text string        `json:"text"`
}

// explain is POST /v1/explain.
func (s *Server) explain(w http.ResponseWriter, _ *http.Request, m *reach.Message) error {
	if err := wantRequest(m); err != nil {
		return err
	}
	ranked, err := s.deps.Ingress.Explain(m)
	if err != nil {
		return err
	}
	reply := explainReply{Candidates: make([]explained, len(ranked)), Mode: s.cfg.SelectMode}
	for i := range ranked {
		one := explainOne(&ranked[i])
		if reply.Chosen == "" && one.LeftOut == nil {
			reply.Chosen = one.Agent
		}
		reply.Candidates[i] = one
	}
	return writeJSON(w, http.StatusOK, &reply)
}

func explainOne(c *reach.Ranked) explained {
	one := explained{Agent: c.Agent, Node: c.Node, State: c.State, Version: c.Offer.Version, Score: c.Score, Factors: viewFactors(c.Factors)}
	if c.LeftOut != nil {
		one.LeftOut = &leftOut{c.LeftOut.Code, c.LeftOut.Text}
	}
	return one
}
