package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

const crowd = 10_000

// memory is the node's resident memory, idle and with 10,000 agents registered that are reached over HTTP, each with a capability and a
// schema.
func memory(ctx context.Context, l *lab) ([]row, error) {
	node, err := l.node()
	if err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Second) // let the start's garbage go
	idle, err := rss(node.Process.Pid)
	if err != nil {
		return nil, err
	}
	if err := registerCrowd(ctx, l); err != nil {
		return nil, err
	}
	time.Sleep(2 * time.Second)
	full, err := rss(node.Process.Pid)
	if err != nil {
		return nil, err
	}
	const published = 150
	return []row{
		{Name: "memory_idle", Value: idle, Unit: "MB", Peer: "published figure", PeerValue: published, Ratio: idle / published, Aim: "≤ 1", Holds: holds(idle <= published)},
		{Name: "memory_10k", Value: full, Unit: "MB", Peer: "published figure", PeerValue: published, Ratio: full / published, Aim: "≤ 1", Holds: holds(full <= published)},
	}, nil
}

// member is one of the crowd; its key follows from its number.
func memberKey(i int) envelope.PrivateKey {
	return envelope.KeyFromSeed([32]byte{byte(i), byte(i >> 8), byte(i >> 16), 1})
}

func registerCrowd(ctx context.Context, l *lab) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(answerProbe)}
	go server.Serve(listener)
	defer server.Close()
	node, err := nodeID(l.addr)
	if err != nil {
		return err
	}
	numbers := make(chan int)
	errs := make(chan error, 32)
	var all sync.WaitGroup
	for range cap(errs) {
		all.Go(func() {
			for i := range numbers {
				if err := registerMember(ctx, l.addr, node, listener.Addr().String(), i); err != nil {
					errs <- fmt.Errorf("agent %d: %w", i, err)
					return
				}
			}
		})
	}
	for i := 0; i < crowd && len(errs) == 0; i++ {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	return untilAvailable(ctx, l.addr)
}

func nodeID(addr string) (string, error) {
	var nodes struct {
		Nodes []struct {
			ID string `json:"node_id"`
		} `json:"nodes"`
	}
	resp, err := http.Get("http://" + addr + "/v1/nodes")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&nodes); err != nil || len(nodes.Nodes) == 0 {
		return "", fmt.Errorf("GET /v1/nodes: %v, %v", nodes, err)
	}
	return nodes.Nodes[0].ID, nil
}

func registerMember(ctx context.Context, addr, node, endpoint string, i int) error {
	key, id := memberKey(i), fmt.Sprintf("crowd-%05d", i)
	descriptor := fmt.Sprintf(`{"agent_id":%q,"capabilities":[{"name":"crowd.%d","version":"1.0.0","input_schema":%s}],"endpoint":{"type":"http","url":"http://%s/%d"},"public_key":%q}`,
		id, i%1000, echoSchema, endpoint, i, key.Public())
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), MsgType: envelope.Register, SourceAgent: id, ToNode: node, Timestamp: envelope.Timestamp{Time: time.Now()},
	}, []byte(descriptor))
	if err != nil {
		return err
	}
	envelope.Sign(key, e)
	doc, err := e.AppendDocument(nil, nil)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/agents", bytes.NewReader(doc))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return err
}

// answerProbe is every member's endpoint: it answers readiness probes.
func answerProbe(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	probe, _, err := envelope.Decode(body, envelope.DefaultMaxPayload)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var i int
	fmt.Sscanf(r.URL.Path, "/%d", &i)
	e, err := envelope.New(envelope.Header{
		MsgID: rand.Text(), TraceID: probe.Header.TraceID, MsgType: envelope.Response, SourceAgent: probe.Header.TargetAgent,
		TargetAgent: probe.Header.SourceAgent, InReplyTo: probe.Header.MsgID, Status: envelope.StatusOK, Timestamp: envelope.Timestamp{Time: time.Now()},
	}, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	envelope.Sign(memberKey(i), e)
	doc, _ := e.AppendDocument(nil, nil)
	w.Header().Set("Content-Type", "application/json")
	w.Write(doc)
}

// untilAvailable waits until the node counts everybody as available.
func untilAvailable(ctx context.Context, addr string) error {
	want := fmt.Sprintf("agent_reach_available_agents %d\n", crowd)
	for range 600 {
		resp, err := http.Get("http://" + addr + "/metrics")
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil && strings.Contains(string(body), want) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("not all of %d agents became available within a minute", crowd)
}
