// Package metrics turns what happens in a node into series that Prometheus can read.
//
//	reach, node/ingress ──Event──▶ Metrics.Observe ──▶ counters, histograms ─┐
//	Sources (asked at each scrape) ─────────────────▶ gauges ────────────────┴─▶ Handler, GET /metrics
//
// No label takes its values from what users or other nodes send: codes, steps, states and message types are closed lists, and
// whatever is in none of them is counted as "other". So the number of series is bounded, whoever talks to the node.
//
// The package returns no errors.
package metrics
