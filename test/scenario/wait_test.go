package scenario

import (
	"context"
	"testing"
	"time"
)

// patience is how long anything may take on a busy machine before a test gives up.
const patience = 20 * time.Second

const lookAgain = 5 * time.Millisecond

// eventually waits until the answer is yes.
func eventually(t testing.TB, what string, yes func() bool) {
	t.Helper()
	if !soon(yes) {
		t.Fatalf("not within %v: %s", patience, what)
	}
}

// soon waits until the answer is yes and reports whether it came to be.
func soon(yes func() bool) bool {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for late := time.After(patience); ; {
		if yes() {
			return true
		}
		select {
		case <-tick.C:
		case <-late:
			return false
		}
	}
}

// within takes what a channel gives, which must not take long.
func within[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}

// short is a context that ends before the test gives up.
func short(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}
