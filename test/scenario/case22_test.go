package scenario

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
	"github.com/agent-reach/agent-reach/sdk"
)

// manyIDs is how many messages the node is asked to tell apart here; a million are seen's own test.
var manyIDs = scaled(10_000)

// TestCase22BloomFalsePositive: messages with timestamps all over the window, so that filters rotate, are never taken for each other; and each
// replay is refused.
func TestCase22BloomFalsePositive(t *testing.T) {
	n := startNode(t, settings{"logging.access_log_enabled": "false"})
	var runs atomic.Int32
	agent := newAgent(t, n, "counter", sdk.WithMaxConcurrent(256))
	agent.Handle(offer("count.up"), func(context.Context, *sdk.Request) (any, error) { runs.Add(1); return nil, nil })
	serve(t, agent)
	v := registered(t, n, "client")
	l, err := v.dial(nil)
	must(t, err)
	batches := makeMessages(v, "count.up")
	if refused := sendAll(t, l, batches); refused != 0 || int(runs.Load()) != manyIDs {
		t.Fatalf("of %d distinct messages %d were refused and %d ran", manyIDs, refused, runs.Load())
	}
	replayed := 0
	for _, batch := range batches {
		for i := range 2 {
			replayed++
			_, err := say(short(t), l, batch[i*100])
			if code := envelope.AsError(err).Code; err == nil || code != envelope.Duplicate && code != envelope.Expired {
				t.Fatalf("a replay was answered with %v", err)
			}
		}
	}
	if got := runs.Load(); int(got) != manyIDs {
		t.Errorf("%d replays ran %d times", replayed, int(got)-manyIDs)
	}
}

// makeMessages makes manyIDs messages, sealed in batches, with timestamps from 110 s ago to 110 s ahead.
func makeMessages(v *voice, capability string) (batches [][]*envelope.Envelope) {
	now := time.Now().UTC()
	for made := 0; made < manyIDs; {
		var batch []*envelope.Envelope
		for len(batch) < envelope.MaxLeaves && made < manyIDs {
			h := v.header(envelope.Request, capability)
			h.MsgID = "m-" + strconv.Itoa(made)
			h.Timestamp.Time = now.Add(time.Duration(made%221-110) * time.Second)
			h.TTLSec = 300
			e, err := envelope.New(h, nil)
			must(v.t, err)
			batch = append(batch, e)
			made++
		}
		if len(batch) > 200 {
			batches = append(batches, batch)
		} else {
			batches[len(batches)-1] = append(batches[len(batches)-1], batch...)
		}
		envelope.Sign(v.key, batch...)
	}
	return batches
}

// sendAll sends every message, a batch at a time in each of a few goroutines, and counts what failed.
func sendAll(t *testing.T, l *link.Link, batches [][]*envelope.Envelope) (refused int32) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // thousands of calls, perhaps beside other work
	defer cancel()
	var failed atomic.Int32
	work := make(chan *envelope.Envelope)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for e := range work {
				if _, err := say(ctx, l, e); err != nil {
					failed.Add(1)
					t.Logf("%s: %v", e.Header.MsgID, err)
				}
			}
		})
	}
	for _, batch := range batches {
		for _, e := range batch {
			work <- e
		}
	}
	close(work)
	all.Wait()
	return failed.Load()
}
