package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

// An agent that registers again, over its link and over new ones, is never missed.
func TestRegisterAgainWithoutAGap(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	a.mustRegister("", "stock.query")
	caller := newCaller(n)
	ctx, stop := context.WithCancel(context.Background())
	var answered [4]atomic.Int32
	var calling sync.WaitGroup
	for i := range answered {
		calling.Go(func() {
			for ctx.Err() == nil {
				if _, err := caller.call(context.Background(), "stock.query", "{}"); err != nil {
					t.Error(err)
					return
				}
				answered[i].Add(1)
			}
		})
	}
	for i := range 20 {
		a.mustRegister("", "stock.query", fmt.Sprintf("extra-%d", i))
		if n.Directory.Capability(fmt.Sprintf("extra-%d", i)) == nil || n.Directory.Capability(fmt.Sprintf("extra-%d", i-1)) != nil {
			t.Error("the new descriptor does not stand")
		}
	}
	for range 5 {
		b := a.twin().mustOpen()
		if s := b.mustRegister("", "stock.query"); s.State != envelope.Available {
			t.Errorf("%+v", s)
		}
		for i := range answered {
			had := answered[i].Load()
			eventually(t, "whoever had chosen the old link is done", func() bool { return answered[i].Load() > had+1 || t.Failed() })
		}
		a.drop()
		a = b
	}
	stop()
	calling.Wait()
}

// The schemas of replaced and refused registrations do not stay.
func TestSchemasAreGivenBack(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	var ids []envelope.SchemaID
	for i := range 5 {
		schema := fmt.Sprintf(`{"maximum":%d}`, i)
		declared := `"capabilities":[{"name":"c","version":"1.0.0","input_schema":` + schema + `,"output_schema":` + schema + `}]`
		if _, err := a.tell(a.says(envelope.Register, strings.Replace(a.descriptor(""), `"capabilities":[]`, declared, 1), nil)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, n.Directory.Agent("stock").Offers[0].Schema)
	}
	gone := func(id envelope.SchemaID) bool { return n.Schemas.Check(id, []byte("0")) != nil }
	eventually(t, "the four replaced schemas are gone", func() bool {
		return gone(ids[0]) && gone(ids[1]) && gone(ids[2]) && gone(ids[3])
	})
	if gone(ids[4]) {
		t.Fatal("the schema in use is gone")
	}
	if _, err := a.tell(a.says(envelope.Unregister, `{}`, nil)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last schema is gone", func() bool { return gone(ids[4]) })
}

// What is declared last counts, even if it cannot be reached: it is shown why.
func TestReplacedByWhatDoesNotAnswer(t *testing.T) {
	n := newNode(t, nil)
	a := newAgent(n, "stock").mustOpen()
	a.mustRegister("", "stock.query")
	a.mustRegister(`,"endpoint":{"type":"http","url":"http://127.0.0.1:1/"}`, "stock.query")
	n.awaitState("stock", envelope.Pending)
	_, err := newCaller(n).call(t.Context(), "stock.query", "{}")
	wantError(t, err, envelope.NoRoute, "refused")
	a.mustRegister("", "stock.query")
	n.awaitState("stock", envelope.Available)
}

func TestLinkOfAnother(t *testing.T) {
	n := newNode(t, nil)
	a, b := newAgent(n, "stock").mustOpen(), newAgent(n, "other")
	b.mustRegister("")
	b.link = a.link
	_, err := b.register("", "stock.query")
	wantError(t, err, envelope.Forbidden, "own link only")
	if n.state("stock") != envelope.Removed || len(n.Directory.Agent("other").Offers) != 0 {
		t.Fatal("it changed something")
	}
}
