package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/sdk"
)

// echoSchema is of the kind that a payload of 256 bytes has.
const echoSchema = `{"type":"object","properties":{"sku":{"type":"string"},"amount":{"type":"integer"},"note":{"type":"string","maxLength":4096}},"required":["sku","note"]}`

// payload is 256 bytes of JSON.
func payload() []byte {
	head := `{"sku":"SKU-88213","amount":3,"note":"`
	return []byte(head + strings.Repeat("x", 256-len(head)-2) + `"}`)
}

// echoAgent attaches to the node, and beside that accepts links from callers without a node in between. It prints "ready", the
// direct address and its public key.
func echoAgent(ctx context.Context, _ []string) error {
	key := envelope.GenerateKey()
	agent, err := sdk.New("echo-agent", sdk.WithKey(key), sdk.WithMaxConcurrent(1024), sdk.WithLogger(slog.New(slog.NewTextHandler(os.Stdout, nil))))
	if err != nil {
		return err
	}
	agent.Handle(sdk.Capability{Name: "echo", Version: "1.0.0", InputSchema: sdk.Schema(echoSchema)},
		func(_ context.Context, req *sdk.Request) (any, error) { return sdk.Schema(req.Payload), nil })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go acceptDirect(ctx, l, key)
	fmt.Println("direct", l.Addr(), key.Public())
	return agent.Run(ctx)
}

// acceptDirect serves calls over links without a node: the same seals, nothing else.
func acceptDirect(ctx context.Context, l net.Listener, key envelope.PrivateKey) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			session, err := link.Accept(ctx, conn, link.Config{Role: link.Agent, ID: "echo-agent", Key: key})
			if err != nil {
				return
			}
			caller := session.Peer().Key
			_ = session.Run(ctx, func(ctx context.Context, in *link.Inbound) error {
				if err := in.Envelope.Verify(caller); err != nil {
					return err
				}
				reply, err := answer(in.Envelope, key)
				if err != nil {
					return err
				}
				return in.SendLast(ctx, reply)
			})
		}()
	}
}

func answer(request *envelope.Envelope, key envelope.PrivateKey) (*envelope.Envelope, error) {
	h := &request.Header
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), TraceID: h.TraceID, MsgType: envelope.Response, SourceAgent: "echo-agent", TargetAgent: h.SourceAgent,
		TargetCapability: h.TargetCapability, InReplyTo: h.MsgID, Status: envelope.StatusOK, Timestamp: envelope.Timestamp{Time: time.Now()},
	}, request.Payload)
	if err == nil {
		envelope.Sign(key, e)
	}
	return e, err
}

// direct is a caller with a link straight to the agent.
type direct struct {
	session  *link.Link
	key      envelope.PrivateKey
	agentKey envelope.PublicKey
}

func dialDirect(ctx context.Context, addr string, agentKey envelope.PublicKey) (*direct, error) {
	var conn io.ReadWriteCloser
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	d := &direct{key: envelope.GenerateKey(), agentKey: agentKey}
	d.session, err = link.Dial(ctx, conn, link.Config{Role: link.Agent, ID: "bench-caller", Key: d.key})
	if err != nil {
		return nil, err
	}
	go d.session.Run(ctx, func(context.Context, *link.Inbound) error { return envelope.Unsupported })
	return d, nil
}

func (d *direct) call(ctx context.Context) error {
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), MsgType: envelope.Request, SourceAgent: "bench-caller", TargetCapability: "echo", Timestamp: envelope.Timestamp{Time: time.Now()},
	}, payload())
	if err != nil {
		return err
	}
	envelope.Sign(d.key, e)
	return d.session.Call(ctx, e, link.Hop{Priority: 5, HopsLeft: 1}, func(part *envelope.Envelope) error { return part.Verify(d.agentKey) })
}

// startEcho starts a node and the echo agent, and returns a caller attached to the node and one with a link to the agent.
func startEcho(ctx context.Context, l *lab) (through func(context.Context) error, without *direct, err error) {
	if _, err := l.node(); err != nil {
		return nil, nil, err
	}
	said, _, err := l.start(l.self, []string{"echo-agent"}, "direct ")
	if err != nil {
		return nil, nil, err
	}
	fields := strings.Fields(said)
	agentKey, err := envelope.ParsePublicKey(fields[2])
	if err != nil {
		return nil, nil, err
	}
	if without, err = dialDirect(ctx, fields[1], agentKey); err != nil {
		return nil, nil, err
	}
	caller, err := sdk.New("bench-caller", sdk.WithNode("http://"+l.addr), sdk.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, nil, err
	}
	in := sdk.Schema(payload())
	through = func(ctx context.Context) error { return caller.Call(ctx, "echo", in, nil) }
	return through, without, untilAnswered(ctx, through)
}

// untilAnswered waits for the agent to be attached and ready.
func untilAnswered(ctx context.Context, call func(context.Context) error) (err error) {
	for range 500 {
		if err = call(ctx); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}
