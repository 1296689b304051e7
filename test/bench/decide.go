package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

var benchLine = regexp.MustCompile(`BenchmarkDecide/agents=(\d+)\S*\s+\d+\s+([\d.]+) ns/op.*?(\d+) allocs/op`)

// decide is the time to resolve and choose among 1,000 candidates where 100,000 agents are known, beside the same where only those 1,000 are.
func decide(ctx context.Context, _ *lab) ([]row, error) {
	var many, few []float64
	allocs := 0.
	for range 3 {
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkDecide$", "-benchtime", "100000x", "./reach")
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
		for _, m := range benchLine.FindAllStringSubmatch(string(out), -1) {
			ns, _ := strconv.ParseFloat(m[2], 64)
			if m[1] == "100000" {
				many = append(many, ns)
				allocs, _ = strconv.ParseFloat(m[3], 64)
			} else {
				few = append(few, ns)
			}
		}
	}
	if len(many) == 0 || len(many) != len(few) {
		return nil, fmt.Errorf("no figures in the output of BenchmarkDecide")
	}
	time := compared("decide_1000_of_100k", "ns", "1,000 agents in all", many, few)
	time.Aim, time.Holds = "no growth with the number of agents (≤ 1.5)", holds(time.Ratio <= 1.5)
	return []row{time, {Name: "decide_allocations", Value: allocs, Unit: "allocations", Aim: "0", Holds: holds(allocs == 0)}}, nil
}
