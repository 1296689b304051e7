package main

import (
	"context"
	"time"
)

const rounds = 5

// overhead is what a node costs a call: the time through it less the time of the same sealed call over a link straight to the agent, one at a
// time, in alternating rounds.
func overhead(ctx context.Context, l *lab) ([]row, error) {
	through, without, err := startEcho(ctx, l)
	if err != nil {
		return nil, err
	}
	var p50, p99, direct50, direct99 []float64
	for range rounds {
		with, err := latencies(ctx, 1500, through)
		if err != nil {
			return nil, err
		}
		bare, err := latencies(ctx, 1500, without.call)
		if err != nil {
			return nil, err
		}
		p50, direct50 = append(p50, quantile(with, 0.5)), append(direct50, quantile(bare, 0.5))
		p99, direct99 = append(p99, quantile(with, 0.99)), append(direct99, quantile(bare, 0.99))
	}
	return []row{
		difference("routing_overhead_p50", p50, direct50, 0.5, "< 0.5 ms; published: 2–4 ms"),
		difference("routing_overhead_p99", p99, direct99, 0, ""),
	}, nil
}

func difference(name string, with, without []float64, below float64, aim string) row {
	r := compared(name, "ms", "direct sealed call", with, without)
	r.Value = median(with) - median(without)
	if below > 0 {
		r.Aim, r.Holds = aim, holds(r.Value < below)
	}
	return r
}

// latencies makes n calls, one at a time, and returns their durations in milliseconds.
func latencies(ctx context.Context, n int, call func(context.Context) error) ([]float64, error) {
	out := make([]float64, n)
	for i := range out {
		began := time.Now()
		if err := call(ctx); err != nil {
			return nil, err
		}
		out[i] = float64(time.Since(began).Nanoseconds()) / 1e6
	}
	return out, nil
}
