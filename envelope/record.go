package envelope

import (
	"time"

	"github.com/Masterminds/semver/v3"
)

// State is where an agent stands in its life on its home node.
//
//	pending ──answered a probe──▶ available ◀──▶ suspect      failing; a probe brings it back
//	   │                              │ │
//	   │              unregister ─────┘ └── link lost, or silent for heartbeat_timeout_sec
//	   │                   ▼                        ▼
//	   └──────────────▶ draining ──▶ removed ◀── unavailable   silent for capability_ttl_sec
type State string

// The states. Only an Available agent gets ordinary traffic. Removed is never stored: the record is gone.
const (
	Pending     State = "pending"
	Available   State = "available"
	Suspect     State = "suspect"
	Draining    State = "draining"
	Unavailable State = "unavailable"
	Removed     State = "removed"
)

// Record is what a home node says of one agent attached to it. It is immutable: a change makes a new one.
type Record struct {
	Agent string // agent id
	Node  string // home node's id
	Key   PublicKey
	State State
	// Reason says why State is not Available, for people.
	Reason string
	Since  time.Time // when State was entered
	// Distance is the last factor of the path's score: 1 the same machine, less the further away.
	Distance float64
	// VouchedBy is the node that seals in a keyless agent's name; empty for agents with a key of their own.
	VouchedBy  string
	Descriptor *Descriptor
	// Offers are the descriptor's capabilities, ready for resolving.
	Offers []Offer
	// Version grows with every change of this record at its owner.
	Version uint64
}

// Offer is one capability of a record.
type Offer struct {
	*Capability
	Semver *semver.Version
	// Schema names the compiled input_schema; equal ids mean equal schemas.
	Schema SchemaID
	// Off: switched off by the agent for now (busy hours).
	Off bool
}

// SchemaID is the SHA-256 sum of a schema's bytes; zero: everything is valid.
type SchemaID Hash

// Offer finds the record's capability of that name, nil if there is none.
func (r *Record) Offer(name string) *Offer {
	for i := range r.Offers {
		if r.Offers[i].Name == name {
			return &r.Offers[i]
		}
	}
	return nil
}

// Candidate is a record that could answer a request for one capability, with its offer of it.
type Candidate struct {
	*Record
	Offer *Offer
}
