package ingress

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// agentView is what anybody may know of an agent. Its address is not part of it: that is for permitted callers, from /v1/lookup.
type agentView struct {
	AgentID       string             `json:"agent_id"`
	DisplayName   string             `json:"display_name,omitzero"`
	NodeID        string             `json:"node_id"`
	State         envelope.State     `json:"state"`
	Reason        string             `json:"reason,omitzero"` // why the state is not available
	Since         envelope.Timestamp `json:"since_utc"`       // of the state
	Score         float64            `json:"score"`           // 0 to 10, of the path from this node
	PublicKey     envelope.PublicKey `json:"public_key"`
	VouchedBy     string             `json:"vouched_by,omitzero"`
	EndpointType  string             `json:"endpoint_type"`
	HeartbeatSec  int                `json:"heartbeat_interval_sec"`
	MaxConcurrent int                `json:"max_concurrent_requests"`
	Load          *loadView          `json:"load,omitzero"` // of agents attached to this node
	Capabilities  []capabilityView   `json:"capabilities"`
}

// loadView is what this node has in hand for an agent.
type loadView struct {
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// capabilityView is one capability of one agent. In lists only the first three members are there.
type capabilityView struct {
	Name         string          `json:"name"`
	Version      string          `json:"version"`
	Available    bool            `json:"available"` // false: switched off by the agent for now
	Description  string          `json:"description,omitzero"`
	Tags         []string        `json:"tags,omitempty"`
	Effect       envelope.Effect `json:"effect,omitzero"`
	InputSchema  jsontext.Value  `json:"input_schema,omitzero"`
	OutputSchema jsontext.Value  `json:"output_schema,omitzero"`
}

// agentList is one page.
type agentList struct {
	Agents []agentView `json:"agents"`
	Next   string      `json:"next,omitzero"` // ?after= of the next page; absent on the last
}

// listAgents is GET /v1/agents?capability=&state=&limit=&after=.
func (s *Server) listAgents(w http.ResponseWriter, r *http.Request) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	match, records, err := s.filter(r)
	if err != nil {
		return err
	}
	from, _ := slices.BinarySearchFunc(records, page.after, func(r *envelope.Record, id string) int { return strings.Compare(r.Agent, id) })
	out := agentList{Agents: []agentView{}}
	now := time.Now()
	for _, rec := range records[from:] {
		if rec.Agent == page.after || !match(rec) {
			continue
		}
		if len(out.Agents) == page.limit {
			out.Next = out.Agents[page.limit-1].AgentID
			break
		}
		out.Agents = append(out.Agents, s.view(rec, now, false))
	}
	return writeJSON(w, http.StatusOK, &out)
}

// filter finds the records to look at, sorted by agent id, and which of them are asked for.
func (s *Server) filter(r *http.Request) (match func(*envelope.Record) bool, records []*envelope.Record, err error) {
	q := r.URL.Query()
	state := envelope.State(q.Get("state"))
	if err := checkState(state); err != nil {
		return nil, nil, err
	}
	match = func(rec *envelope.Record) bool { return state == "" || rec.State == state }
	if !q.Has("capability") {
		return match, s.deps.Directory.Agents(), nil
	}
	target, err := envelope.ParseTarget(q.Get("capability"))
	if err != nil {
		return nil, nil, err
	}
	for _, c := range s.deps.Directory.Capability(target.Name) {
		if target.Admits(c.Offer.Semver) {
			records = append(records, c.Record)
		}
	}
	return match, records, nil
}

func checkState(state envelope.State) error {
	known := []envelope.State{"", envelope.Pending, envelope.Available, envelope.Suspect, envelope.Draining, envelope.Unavailable}
	if slices.Contains(known, state) {
		return nil
	}
	return envelope.Errorf(envelope.Malformed, envelope.StepDecode, "state is %.50q", state).
		WithHint("pending, available, suspect, draining or unavailable")
}

// departedView is what stays known of an agent that has left.
type departedView struct {
	AgentID   string             `json:"agent_id"`
	NodeID    string             `json:"node_id"`
	State     envelope.State     `json:"state"`
	PublicKey envelope.PublicKey `json:"public_key"`
}

// showAgent is GET /v1/agents/{id}.
func (s *Server) showAgent(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := envelope.CheckAgentID("agent id", id); err != nil {
		return err
	}
	if rec := s.deps.Directory.Agent(id); rec != nil {
		view := s.view(rec, time.Now(), true)
		return writeJSON(w, http.StatusOK, &view)
	}
	key, pinned := s.deps.Keys.Key(id)
	if !pinned || id == s.cfg.NodeID {
		return envelope.Errorf(envelope.NoRoute, envelope.StepResolve, "no agent %s is known to this node", id).
			WithHint("GET /v1/agents lists who is there")
	}
	// The last answer of an agent that has left can still be checked.
	return writeJSON(w, http.StatusOK, &departedView{id, s.cfg.NodeID, envelope.Removed, key})
}

// view is a record for reading; whole includes what is said of each capability.
func (s *Server) view(rec *envelope.Record, now time.Time, whole bool) agentView {
	d := rec.Descriptor
	v := agentView{
		AgentID: rec.Agent, DisplayName: d.DisplayName, NodeID: rec.Node,
		State: rec.State, Reason: rec.Reason, Since: envelope.Timestamp{Time: rec.Since.UTC()},
		Score: s.deps.Paths.Score(rec, now), PublicKey: rec.Key, VouchedBy: rec.VouchedBy, EndpointType: cmp.Or(d.Endpoint.Type, envelope.LinkEndpoint),
		HeartbeatSec: d.HeartbeatIntervalSec, MaxConcurrent: d.MaxConcurrentRequests,
		Capabilities: make([]capabilityView, len(rec.Offers)),
	}
	if rec.Node == s.cfg.NodeID {
		running, waiting := s.deps.Home.Load(rec.Agent)
		v.Load = &loadView{running, waiting}
	}
	for i := range rec.Offers {
		v.Capabilities[i] = viewOffer(&rec.Offers[i], whole)
	}
	return v
}

func viewOffer(o *envelope.Offer, whole bool) capabilityView {
	v := capabilityView{Name: o.Name, Version: o.Version, Available: !o.Off}
	if whole {
		v.Description, v.Tags, v.Effect = o.Description, o.Tags, o.Effect
		v.InputSchema, v.OutputSchema = o.InputSchema, o.OutputSchema
	}
	return v
}

// page is which part of a list is asked for.
type page struct {
	limit int
	after string
}

const (
	defaultPage = 100
	maxPage     = 1000
)

func pageOf(r *http.Request) (page, error) {
	limit, err := limitOf(r, defaultPage, maxPage)
	return page{limit, r.URL.Query().Get("after")}, err
}

// limitOf reads ?limit=.
func limitOf(r *http.Request, absent, most int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, envelope.Errorf(envelope.Malformed, envelope.StepDecode, "limit is %.50q; it must be 1 to %d", text, most).WithHint("leave it out for %d, and follow next to the other pages", absent)
	}
	return n, nil
}
