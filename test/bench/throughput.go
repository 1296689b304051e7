package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// throughput is calls a second through one node, sealed and schema-checked, beside NATS request–reply, which does neither, with the same payload.
func throughput(ctx context.Context, l *lab) ([]row, error) {
	ours, _, err := startEcho(ctx, l)
	if err != nil {
		return nil, err
	}
	theirs, err := startNATS(ctx, l)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, n := range []int{1, 16, 64} {
		var a, b []float64
		for range rounds {
			x, err := perSecond(ctx, n, 2*time.Second, ours)
			if err != nil {
				return nil, err
			}
			y, err := perSecond(ctx, n, 2*time.Second, theirs)
			if err != nil {
				return nil, err
			}
			a, b = append(a, x), append(b, y)
		}
		r := compared(fmt.Sprintf("calls_per_second_%d", n), "calls/s", "NATS request–reply", a, b)
		r.Aim = "measured only"
		rows = append(rows, r)
	}
	return rows, nil
}

func startNATS(ctx context.Context, l *lab) (call func(context.Context) error, err error) {
	addr := freeAddr()
	if _, _, err := l.start(l.self, []string{"nats-server", addr}, "ready"); err != nil {
		return nil, err
	}
	if _, _, err := l.start(l.self, []string{"nats-responder", addr}, "ready"); err != nil {
		return nil, err
	}
	conn, err := nats.Connect("nats://" + addr)
	if err != nil {
		return nil, err
	}
	body := payload()
	call = func(ctx context.Context) error {
		_, err := conn.RequestWithContext(ctx, "echo", body)
		return err
	}
	return call, untilAnswered(ctx, call)
}

func natsServer(ctx context.Context, args []string) error {
	ip, port, err := net.SplitHostPort(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	s, err := server.NewServer(&server.Options{Host: ip, Port: n, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return fmt.Errorf("nats-server is not ready")
	}
	fmt.Println("ready")
	<-ctx.Done()
	s.Shutdown()
	return nil
}

func natsResponder(ctx context.Context, args []string) error {
	conn, err := nats.Connect("nats://" + args[0])
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) }); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return nil
}
