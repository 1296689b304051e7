package registry

import (
	"crypto/rand"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// standing is the payload of the answers to register, heartbeat and unregister; each leaves out what is not its own.
type standing struct {
	AgentID             string             `json:"agent_id,omitzero"`
	NodeID              string             `json:"node_id,omitzero"`
	NodeKey             envelope.PublicKey `json:"node_key,omitzero"`
	State               envelope.State     `json:"state"`
	Reason              string             `json:"reason,omitzero"`
	Score               float64            `json:"score"`
	HeartbeatTimeoutSec int                `json:"heartbeat_timeout_sec,omitzero"`
	CapabilityTTLSec    int                `json:"capability_ttl_sec,omitzero"`
	Nodes               []string           `json:"nodes"`
}

// registered answers a registration.
func (r *Registry) registered(m *reach.Message, e *entry) (*envelope.Envelope, error) {
	s := r.standing(e)
	s.AgentID, s.NodeID, s.NodeKey = e.id, r.Node, r.Key.Public()
	s.HeartbeatTimeoutSec = int(r.cfg.HeartbeatTimeout / time.Second)
	s.CapabilityTTLSec = int(r.cfg.CapabilityTTL / time.Second)
	return r.answer(m, &s)
}

func (r *Registry) standing(e *entry) standing {
	r.mu.Lock()
	rec, state, reason := e.record, e.state, e.reason
	r.mu.Unlock()
	return standing{State: state, Reason: reason, Score: r.Paths.Score(rec, time.Now()), Nodes: append([]string{}, r.cfg.Nodes()...)}
}

// answer is a response of this node, sealed by it.
func (r *Registry) answer(m *reach.Message, payload any) (*envelope.Envelope, error) {
	b, err := json.Marshal(payload)
	if err != nil {
		return nil, refuse(envelope.Internal, "answer: %v", err)
	}
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), TraceID: m.Header.TraceID, MsgType: envelope.Response, InReplyTo: m.Header.MsgID,
		SourceAgent: r.Node, TargetAgent: m.Header.SourceAgent, TargetCapability: m.Header.TargetCapability,
		Timestamp: envelope.Timestamp{Time: time.Now()}, Status: envelope.StatusOK,
	}, b)
	if err != nil {
		return nil, err
	}
	envelope.Sign(r.Key, e)
	return e, nil
}

// refuse is an error of what agents and operators tell a node.
func refuse(code envelope.Code, format string, args ...any) *envelope.Error {
	return envelope.Errorf(code, envelope.StepRegister, format, args...)
}
