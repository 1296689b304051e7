package gossip

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/agent-reach/agent-reach/envelope"
)

// Directory holds the records that a node knows. The zero value is not usable; call NewDirectory.
type Directory struct {
	writing  sync.Mutex
	snapshot atomic.Pointer[snapshot]
}

// snapshot is immutable. A capability's candidates are sorted by agent id.
type snapshot struct {
	agents       *iradix.Tree[*envelope.Record]
	capabilities *iradix.Tree[[]envelope.Candidate]
}

// NewDirectory makes an empty directory.
func NewDirectory() *Directory {
	d := &Directory{}
	d.snapshot.Store(&snapshot{iradix.New[*envelope.Record](), iradix.New[[]envelope.Candidate]()})
	return d
}

// Agent is the record of the agent with this id, nil if none is known.
func (d *Directory) Agent(id string) *envelope.Record {
	r, _ := d.snapshot.Load().agents.Get([]byte(id))
	return r
}

// Capability lists who declares the capability, in whatever state, sorted by agent id. The list must not be changed.
func (d *Directory) Capability(name string) []envelope.Candidate {
	c, _ := d.snapshot.Load().capabilities.Get([]byte(name))
	return c
}

// Agents lists all records, sorted by agent id.
func (d *Directory) Agents() []*envelope.Record {
	tree := d.snapshot.Load().agents
	out := make([]*envelope.Record, 0, tree.Len())
	tree.Root().Walk(func(_ []byte, r *envelope.Record) bool {
		out = append(out, r)
		return false
	})
	return out
}

// Capabilities calls yield for every capability that somebody declares, in the order of their names.
func (d *Directory) Capabilities(yield func(name string, candidates []envelope.Candidate) bool) {
	d.snapshot.Load().capabilities.Root().Walk(func(name []byte, c []envelope.Candidate) bool {
		return !yield(string(name), c)
	})
}

// Len is the number of records.
func (d *Directory) Len() int { return d.snapshot.Load().agents.Len() }

// Put adds the record or replaces the one of the same agent. The record must not be changed afterwards.
func (d *Directory) Put(r *envelope.Record) { d.write(r.Agent, r) }

// Remove forgets the agent.
func (d *Directory) Remove(id string) { d.write(id, nil) }

func (d *Directory) write(id string, r *envelope.Record) {
	d.writing.Lock()
	defer d.writing.Unlock()
	s := d.snapshot.Load()
	agents, capabilities := s.agents.Txn(), s.capabilities.Txn()
	old, _ := agents.Get([]byte(id))
	if old != nil {
		for i := range old.Offers {
			if r == nil || r.Offer(old.Offers[i].Name) == nil {
				withdraw(capabilities, old.Offers[i].Name, id)
			}
		}
	}
	if r == nil {
		agents.Delete([]byte(id))
	} else {
		agents.Insert([]byte(id), r)
		for i := range r.Offers {
			offer(capabilities, envelope.Candidate{Record: r, Offer: &r.Offers[i]})
		}
	}
	d.snapshot.Store(&snapshot{agents.Commit(), capabilities.Commit()})
}

func offer(t *iradix.Txn[[]envelope.Candidate], c envelope.Candidate) {
	name := []byte(c.Offer.Name)
	list, _ := t.Get(name)
	at, found := find(list, c.Agent)
	if found {
		list = slices.Clone(list)
		list[at] = c
	} else {
		list = slices.Insert(slices.Clip(list), at, c)
	}
	t.Insert(name, list)
}

func withdraw(t *iradix.Txn[[]envelope.Candidate], name, agent string) {
	list, _ := t.Get([]byte(name))
	at, found := find(list, agent)
	switch {
	case !found:
	case len(list) == 1:
		t.Delete([]byte(name))
	default:
		t.Insert([]byte(name), slices.Delete(slices.Clone(list), at, at+1))
	}
}

func find(list []envelope.Candidate, agent string) (int, bool) {
	return slices.BinarySearchFunc(list, agent, func(c envelope.Candidate, id string) int { return strings.Compare(c.Agent, id) })
}
