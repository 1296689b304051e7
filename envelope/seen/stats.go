package seen

import "time"

// Stats says how a Memory stands.
type Stats struct {
	IDs            int
	Bytes          int           // estimate
	Window         time.Duration // how far back the memory covered at the last turn of a generation
	Generations    int           // the most that any part holds
	FalsePositives uint64        // look-ups that a filter sent to the exact set in vain
}

// Stats looks at every part in turn: the figures are of about the same moment.
func (m *Memory) Stats() Stats {
	st := Stats{IDs: int(m.total.Load()), Window: m.window()}
	for i := range m.shards {
		m.shards[i].addStats(&st)
	}
	return st
}

func (m *Memory) window() time.Duration {
	floor := time.Unix(0, m.floor.Load())
	return min(max(startOf(m.turned.Load()).Sub(floor), 0), longestWindow)
}

func (s *shard) addStats(st *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Generations = max(st.Generations, len(s.generations))
	st.FalsePositives += s.falsePositives
	for _, g := range s.generations {
		for _, seg := range g.segments {
			st.Bytes += seg.bytes()
		}
	}
}
