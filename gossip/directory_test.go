package gossip_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/gossip"
)

func record(id string, version uint64, capabilities ...string) *envelope.Record {
	r := &envelope.Record{Agent: id, State: envelope.Available, Version: version}
	for _, name := range capabilities {
		r.Offers = append(r.Offers, envelope.Offer{Capability: &envelope.Capability{Name: name, Version: "1.0.0"}})
	}
	return r
}

// model is a directory as one would write it without a thought of speed.
type model map[string]*envelope.Record

func (m model) capability(name string) (agents []string) {
	for id, r := range m {
		if r.Offer(name) != nil {
			agents = append(agents, id)
		}
	}
	sort.Strings(agents)
	return agents
}

func names(list []envelope.Candidate) (agents []string) {
	for _, c := range list {
		agents = append(agents, c.Agent)
	}
	return agents
}

func TestDirectoryAgreesWithAPlainMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	d, m := gossip.NewDirectory(), model{}
	capabilities := []string{"a", "a.b", "ab", "b", "z:1"}
	for step := range 5000 {
		id := fmt.Sprintf("agent-%d", random.IntN(40))
		if random.IntN(3) == 0 {
			d.Remove(id)
			delete(m, id)
		} else {
			var offers []string
			for _, c := range capabilities {
				if random.IntN(2) == 0 {
					offers = append(offers, c)
				}
			}
			r := record(id, uint64(step), offers...)
			d.Put(r)
			m[id] = r
		}
		if d.Len() != len(m) {
			t.Fatalf("step %d: %d records, want %d", step, d.Len(), len(m))
		}
		if got := d.Agent(id); got != m[id] {
			t.Fatalf("step %d: %s is %v, want %v", step, id, got, m[id])
		}
		name := capabilities[random.IntN(len(capabilities))]
		list := d.Capability(name)
		if got, want := names(list), m.capability(name); !slices.Equal(got, want) {
			t.Fatalf("step %d: %s is declared by %v, want %v", step, name, got, want)
		}
		for _, c := range list {
			if c.Record != m[c.Agent] || c.Offer != c.Record.Offer(name) {
				t.Fatalf("step %d: a candidate of %s is of an older record", step, name)
			}
		}
	}
}

func TestASnapshotNeverChanges(t *testing.T) {
	d := gossip.NewDirectory()
	for i := range 10 {
		d.Put(record(fmt.Sprintf("agent-%d", i), 1, "x"))
	}
	list := d.Capability("x")
	before := slices.Clone(list)
	d.Put(record("agent-3", 2, "x"))
	d.Put(record("agent-30", 1, "x"))
	d.Put(record("agent-4", 2))
	d.Remove("agent-5")
	if !slices.Equal(list, before) {
		t.Errorf("a list that was handed out has changed: %v", names(list))
	}
	if want := "[agent-0 agent-1 agent-2 agent-3 agent-30 agent-6 agent-7 agent-8 agent-9]"; fmt.Sprint(names(d.Capability("x"))) != want {
		t.Errorf("now %v", names(d.Capability("x")))
	}
}

func TestListsAreInOrderAndEmptyCapabilitiesGo(t *testing.T) {
	d := gossip.NewDirectory()
	d.Put(record("b", 1, "y", "x"))
	d.Put(record("a", 1, "x"))
	var agents, capabilities []string
	for _, r := range d.Agents() {
		agents = append(agents, r.Agent)
	}
	d.Capabilities(func(name string, _ []envelope.Candidate) bool {
		capabilities = append(capabilities, name)
		return true
	})
	if fmt.Sprint(agents, capabilities) != "[a b] [x y]" {
		t.Errorf("agents %v, capabilities %v", agents, capabilities)
	}
	d.Remove("b")
	if list := d.Capability("y"); list != nil {
		t.Errorf("nobody declares y any more, yet: %v", names(list))
	}
}

func TestReadersNeverWaitNorTear(t *testing.T) {
	d := gossip.NewDirectory()
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 500 {
				d.Put(record(fmt.Sprintf("agent-%d", (i+w)%20), uint64(i), "x"))
				if i%3 == 0 {
					d.Remove(fmt.Sprintf("agent-%d", (i+w+7)%20))
				}
			}
		})
		all.Go(func() {
			for range 2000 {
				list := d.Capability("x")
				if !slices.IsSortedFunc(list, func(a, b envelope.Candidate) int {
					if a.Agent < b.Agent {
						return -1
					}
					return 1
				}) {
					t.Error("a list out of order")
					return
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkPut(b *testing.B) {
	d := gossip.NewDirectory()
	for i := range 100_000 {
		d.Put(record(fmt.Sprintf("agent-%06d", i), 1, fmt.Sprintf("cap.%d", i%100)))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Put(record(fmt.Sprintf("agent-%06d", i%100_000), 2, fmt.Sprintf("cap.%d", i%100)))
	}
}
