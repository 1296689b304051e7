package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/puzpuzpuz/xsync/v4"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// Sources are asked at each scrape. All must be safe for concurrent use; a nil one leaves its series out.
type Sources struct {
	QueueDepth func() int                    // requests waiting for agents attached here
	States     func() map[envelope.State]int // agents in the directory
	Links      func() int                    // open links
	SeenIDs    func() int                    // message ids remembered
}

// Metrics counts events. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	messages map[envelope.MsgType]prometheus.Counter
	unknown  prometheus.Counter // messages of a type in no list
	byResult *prometheus.CounterVec
	results  *xsync.Map[result, prometheus.Counter] // the children of byResult that were used, at most len(codes) × len(steps)
	duration prometheus.Histogram
	overhead prometheus.Histogram
	retries  prometheus.Counter
}

// result is how a call ended.
type result struct{ code, step string }

const (
	okCode = "ok"
	other  = "other"
)

// New makes the series of one node. version is the program's.
func New(version string, sources Sources) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		results:  xsync.NewMap[result, prometheus.Counter](),
		byResult: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "agent_reach_calls_total", Help: "Calls that ended, by code (ok, or an error's) and the step at which they ended.",
		}, []string{"code", "step"}),
		duration: histogram("agent_reach_call_duration_seconds", "From a call's arrival to the end of its answer.", callBuckets),
		overhead: histogram("agent_reach_routing_overhead_seconds", "A call's duration without the time spent in agents and their queues.", overheadBuckets),
		retries:  prometheus.NewCounter(prometheus.CounterOpts{Name: "agent_reach_retries_total", Help: "Hand-overs beyond a call's first."}),
	}
	m.registry.MustRegister(m.byResult, m.duration, m.overhead, m.retries,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.addMessages()
	m.addBuildInfo(version)
	m.addSources(sources)
	return m
}

// Buckets in seconds. The overhead of a node that does well is a fraction of a millisecond.
var (
	callBuckets     = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	overheadBuckets = []float64{.00005, .0001, .0002, .0003, .0005, .00075, .001, .002, .005, .01, .025, .1, 1}
)

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

func (m *Metrics) addMessages() {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agent_reach_messages_total", Help: "Messages that arrived from callers and agents and could be decoded.",
	}, []string{"msg_type"})
	m.registry.MustRegister(vec)
	m.messages = make(map[envelope.MsgType]prometheus.Counter, len(msgTypes))
	for _, t := range msgTypes {
		m.messages[t] = vec.WithLabelValues(string(t))
	}
	m.unknown = vec.WithLabelValues(other)
}

func (m *Metrics) addBuildInfo(version string) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agent_reach_build_info", Help: "Always 1; the label is the program's version.", ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 }))
}

// Handler answers GET /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// Observe counts one event. A StepDecode event without error is a message's arrival; one with an error has no message.
func (m *Metrics) Observe(e reach.Event) {
	switch e.Step {
	case envelope.StepDecode:
		m.arrived(e)
	case envelope.StepCall:
		m.called(e)
	}
}

func (m *Metrics) arrived(e reach.Event) {
	if e.Err != nil {
		m.result(e.Err).Inc()
		return
	}
	if c, ok := m.messages[e.Message.Header.MsgType]; ok {
		c.Inc()
		return
	}
	m.unknown.Inc()
}

func (m *Metrics) called(e reach.Event) {
	m.result(e.Err).Inc()
	m.duration.Observe(e.Duration.Seconds())
	m.overhead.Observe(max(e.Duration-e.Agents, 0).Seconds())
	if e.Retries > 0 {
		m.retries.Add(float64(e.Retries))
	}
}

func (m *Metrics) result(err error) prometheus.Counter {
	r := resultOf(err)
	if c, ok := m.results.Load(r); ok {
		return c
	}
	c, _ := m.results.LoadOrStore(r, m.byResult.WithLabelValues(r.code, r.step))
	return c
}

// resultOf reduces an error to the closed lists: other nodes and agents may send codes and steps of any spelling.
func resultOf(err error) result {
	if err == nil {
		return result{okCode, string(envelope.StepCall)}
	}
	e := envelope.AsError(err)
	r := result{string(e.Code), string(e.Step)}
	if e.Code.Title() == "" {
		r.code = other
	}
	switch {
	case e.Step == "":
		r.step = string(envelope.StepCall)
	case !steps[e.Step]:
		r.step = other
	}
	return r
}
