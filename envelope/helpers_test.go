package envelope_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
)

var (
	at      = envelope.Timestamp{Time: time.Date(2025, 6, 5, 6, 12, 33, 0, time.UTC)}
	seller  = seedKey(1)
	another = seedKey(2)
)

func seedKey(b byte) envelope.PrivateKey {
	var seed [32]byte
	for i := range seed {
		seed[i] = b
	}
	return envelope.KeyFromSeed(seed)
}

func request() envelope.Header {
	return envelope.Header{
		MsgID: "m-1", MsgType: envelope.Request, SourceAgent: "order-agent", TargetCapability: "stock.query@^1.2", Timestamp: at,
	}
}

func message(t testing.TB, h envelope.Header, payload string) *envelope.Envelope {
	t.Helper()
	e, err := envelope.New(h, []byte(payload))
	ok(t, err)
	return e
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks that err is an Error of that code whose text or hint holds every one of words.
func want(t testing.TB, err error, code envelope.Code, words ...string) {
	t.Helper()
	var e *envelope.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if e.Text == "" || e.Step == "" {
		t.Errorf("%v lacks a text or step", err)
	}
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			t.Errorf("%q lacks %q", e.Error(), w)
		}
	}
	checkPrintable(t, e.Error())
}

// checkPrintable fails on what could act on a terminal or hide in a log.
func checkPrintable(t testing.TB, s string) {
	t.Helper()
	for _, r := range s {
		if r < ' ' || r == 0x7f || r >= 0x80 && r <= 0x9f || r >= 0x200b && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff {
			t.Errorf("%q holds %U", s, r)
		}
	}
}

func encode64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
