package link

import (
	"net"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

// tcp is both ends of a connection over loopback.
func tcp(t testing.TB) (a, b net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if a, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// BenchmarkCall is a sealed request of 100 bytes and its answer; allocations are those of both sides together. The two
// envelope.DecodeBinary in it are measured by BenchmarkDecode alone.
func BenchmarkCall(b *testing.B) {
	over := map[string]func(testing.TB) *linked{
		"memory": func(t testing.TB) *linked {
			dialer, acceptor := configs()
			return run(t, dialer, acceptor, echo)
		},
		"tcp": func(t testing.TB) *linked {
			dialer, acceptor := configs()
			x, y := tcp(t)
			return runOver(t, x, y, dialer, acceptor, refuseAll, echo)
		},
		"websocket": func(t testing.TB) *linked {
			dialer, acceptor := configs()
			x, y := webSockets(t, WebSocket)
			return runOver(t, x, y, dialer, acceptor, refuseAll, echo)
		},
	}
	e := ask(b, 100)
	for _, name := range []string{"memory", "tcp", "websocket"} {
		b.Run(name+"/one", func(b *testing.B) {
			l := over[name](b)
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Call(b.Context(), e, Hop{}, ignore); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/64", func(b *testing.B) {
			l := over[name](b)
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := l.Call(b.Context(), e, Hop{}, ignore); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/float64(max(l.Stats().Writes, 1)), "calls/write")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	raw := ask(b, 100).AppendBinary(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := envelope.DecodeBinary(raw, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLargeAnswer(b *testing.B) {
	dialer, acceptor := configs()
	x, y := tcp(b)
	l := runOver(b, x, y, dialer, acceptor, refuseAll, echo)
	e := ask(b, 4<<20)
	b.SetBytes(2 * 4 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Call(b.Context(), e, Hop{}, ignore); err != nil {
			b.Fatal(err)
		}
	}
}
