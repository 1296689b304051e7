package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/agent-reach/agent-reach/envelope"
)

func (m *Metrics) addSources(s Sources) {
	m.gauge("agent_reach_queue_depth", "Requests waiting for a free place at agents attached here.", s.QueueDepth)
	m.gauge("agent_reach_links", "Open links of agents.", s.Links)
	m.gauge("agent_reach_seen_ids", "Message ids remembered, so that none runs twice.", s.SeenIDs)
	if s.States != nil {
		m.registry.MustRegister(agentStates{s.States})
	}
}

func (m *Metrics) gauge(name, help string, read func() int) {
	if read == nil {
		return
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
		func() float64 { return float64(read()) }))
}

// agentStates reads the states once a scrape, so that both of its series agree.
type agentStates struct{ read func() map[envelope.State]int }

var (
	agentsDesc    = prometheus.NewDesc("agent_reach_agents", "Agents in the directory, by state.", []string{"state"}, nil)
	availableDesc = prometheus.NewDesc("agent_reach_available_agents", "Agents in the directory that get ordinary traffic.", nil, nil)
)

// Describe sends both descriptions.
func (a agentStates) Describe(out chan<- *prometheus.Desc) {
	out <- agentsDesc
	out <- availableDesc
}

// Collect sends every state, those without agents as 0.
func (a agentStates) Collect(out chan<- prometheus.Metric) {
	counts := a.read()
	for _, s := range states {
		out <- prometheus.MustNewConstMetric(agentsDesc, prometheus.GaugeValue, float64(counts[s]), string(s))
	}
	out <- prometheus.MustNewConstMetric(availableDesc, prometheus.GaugeValue, float64(counts[envelope.Available]))
}
