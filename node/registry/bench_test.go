package registry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/seen"
	"github.com/agent-reach/agent-reach/gossip"
	"github.com/agent-reach/agent-reach/reach"
	"github.com/agent-reach/agent-reach/reach/schema"
)

// BenchmarkRegister is b.N HTTP agents with one capability each, 256 at a time: what a start of that many costs, and what each keeps.
func BenchmarkRegister(b *testing.B) {
	keys := openStore(b, filepath.Join(b.TempDir(), "k.json"))
	nodeKey := envelope.GenerateKey()
	id, paths := nodeKey.Public().Fingerprint(), reach.NewPaths(reach.DefaultWeights)
	admission := reach.NewAdmission(reach.AdmissionConfig{MaxPayload: 1 << 20, RequireSignature: true, Keys: keys, Seen: seen.New(seen.Config{})})
	home := reach.NewHome(reach.HomeConfig{Node: id, Admission: admission, Paths: paths})
	r := New(Config{FirstUse: true, MaxAgents: b.N + 1}, Deps{
		Node: id, Key: nodeKey, Home: home, Directory: gossip.NewDirectory(), Schemas: schema.NewStore(), Keys: keys, Paths: paths,
		Admission: admission, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	messages := make([]*reach.Message, b.N)
	for i := range messages {
		messages[i] = registrationOf(b, id, fmt.Sprint("agent-", i))
	}
	before := heapInUse()
	b.SetParallelism(128)
	b.ResetTimer()
	var next atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Register(context.Background(), messages[next.Add(1)-1], Via{}); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(heapInUse()-before)/float64(b.N), "bytes/agent")
	runtime.KeepAlive(messages)
	runtime.KeepAlive(r)
}

func registrationOf(b *testing.B, node, id string) *reach.Message {
	key := envelope.GenerateKey()
	payload, err := json.Marshal(&envelope.Descriptor{
		AgentID: id, PublicKey: key.Public(), Endpoint: envelope.Endpoint{Type: envelope.HTTPEndpoint, URL: "http://127.0.0.1:1/"},
		Capabilities: []envelope.Capability{{Name: "stock.query", Version: "1.0.0", InputSchema: []byte(`{"type":"object","properties":{"sku":{"type":"string"}}}`)}},
	})
	if err != nil {
		b.Fatal(err)
	}
	e, err := envelope.New(envelope.Header{
		MsgID: id, MsgType: envelope.Register, SourceAgent: id, ToNode: node, Timestamp: envelope.Timestamp{Time: time.Now()},
	}, payload)
	if err != nil {
		b.Fatal(err)
	}
	envelope.Sign(key, e)
	return &reach.Message{Envelope: e}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
