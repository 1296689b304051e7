package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures; or, as a child of itself, plays a role.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		if role, ok := roles[args[0]]; ok {
			return role(ctx, args[1:])
		}
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	out := flags.String("out", "bench.json", "where the rows are written")
	only := flags.String("only", "", "measure only rows whose name begins so")
	bin := flags.String("bin", "../../bin/agent-reach", "the program to measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rows, err := measure(ctx, *bin, *only)
	print(os.Stdout, rows)
	if err != nil {
		return err
	}
	return write(*out, rows)
}

// roles are what this program is started as by itself.
var roles = map[string]func(context.Context, []string) error{
	"echo-agent":     echoAgent,
	"nats-server":    natsServer,
	"nats-responder": natsResponder,
}

// groups are measured in this order; each gives one or more rows.
var groups = []struct {
	names string // the rows it gives
	run   func(context.Context, *lab) ([]row, error)
}{
	{"routing_overhead_p50 routing_overhead_p99", overhead},
	{"calls_per_second_1 calls_per_second_16 calls_per_second_64", throughput},
	{"decide_1000_of_100k decide_allocations", decide},
	{"memory_idle memory_10k", memory},
}

func measure(ctx context.Context, bin, only string) (rows []row, err error) {
	for _, g := range groups {
		if !wanted(g.names, only) {
			continue
		}
		lab, err := newLab(ctx, bin)
		if err != nil {
			return rows, err
		}
		got, err := g.run(ctx, lab)
		lab.close()
		if err != nil {
			return rows, fmt.Errorf("%s: %w", g.names, err)
		}
		for _, r := range got {
			if wanted(r.Name, only) {
				rows = append(rows, r)
			}
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row begins with %q", only)
	}
	return rows, nil
}

func wanted(names, only string) bool {
	for name := range strings.FieldsSeq(names) {
		if strings.HasPrefix(name, only) {
			return true
		}
	}
	return false
}
