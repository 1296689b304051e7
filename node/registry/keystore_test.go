package registry

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

func openStore(t testing.TB, path string) *KeyStore {
	t.Helper()
	s, err := OpenKeyStore(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPinsAreOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "public_keys.json")
	s := openStore(t, path)
	want := map[string]envelope.PublicKey{}
	var mu sync.Mutex
	var pinning sync.WaitGroup
	for i := range 200 {
		pinning.Go(func() {
			id, key := fmt.Sprintf("agent-%d", i), envelope.GenerateKey().Public()
			if err := s.Pin(id, key); err != nil {
				t.Error(err)
			}
			if got, ok := openStore(t, path).Key(id); i%50 == 0 && (!ok || got != key) {
				t.Errorf("%s was pinned and is not on disk", id)
			}
			mu.Lock()
			want[id] = key
			mu.Unlock()
		})
	}
	pinning.Wait()
	back := openStore(t, path)
	if back.Len() != len(want) {
		t.Fatal(back.Len())
	}
	for id, key := range want {
		if got, ok := back.Key(id); !ok || got != key {
			t.Fatal(id, got, ok)
		}
		if err := s.Pin(id, key); err != nil {
			t.Fatal(err)
		}
	}
}

// Case 7: of many keys that come for one id at the same moment, one wins, and all others are told of it.
func TestOnePinWins(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "k.json"))
	for round := range 20 {
		id := fmt.Sprint("agent-", round)
		var won atomic.Pointer[envelope.PublicKey]
		var lost atomic.Int32
		var pinning sync.WaitGroup
		for range 8 {
			pinning.Go(func() {
				key := envelope.GenerateKey().Public()
				if err := s.Pin(id, key); err == nil {
					if !won.CompareAndSwap(nil, &key) {
						t.Error("two keys hold one id")
					}
				} else {
					wantError(t, err, envelope.Conflict, key.Fingerprint())
					lost.Add(1)
				}
			})
		}
		pinning.Wait()
		if key, _ := s.Key(id); won.Load() == nil || key != *won.Load() || lost.Load() != 7 {
			t.Fatal(key, won.Load(), lost.Load())
		}
	}
}

func TestPinThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n := newNode(t, nil)
	n.Registry.Keys = openStore(t, filepath.Join(dir, "later", "k.json"))
	if err := os.WriteFile(filepath.Join(dir, "later"), nil, 0o600); err != nil { // where its folder would be
		t.Fatal(err)
	}
	a := newAgent(n, "stock")
	m := a.says(envelope.Register, a.descriptor(""), nil)
	_, err := a.tell(m)
	wantError(t, err, envelope.Internal, "nothing was registered", "later")
	if _, ok := n.Registry.Keys.Key("stock"); ok || n.state("stock") != envelope.Removed || n.Directory.Len() != 0 {
		t.Fatal("the agent runs unpinned")
	}
	if err := os.Remove(filepath.Join(dir, "later")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.tell(m); err != nil {
		t.Fatalf("the same message again: %v", err)
	}
}

func TestReloadKeepsTheOldOnABadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.json")
	s := openStore(t, path)
	key := envelope.GenerateKey().Public()
	if err := s.Pin("a", key); err != nil {
		t.Fatal(err)
	}
	good, _ := os.ReadFile(path)
	for name, text := range map[string]string{
		"cut":           string(good[:len(good)/2]),
		"twice":         `{"agents":{"a":"` + key.String() + `","a":"` + key.String() + `"}}`,
		"other member":  `{"agents":{},"nodes":{}}`,
		"bad id":        `{"agents":{"a b":"` + key.String() + `"}}`,
		"short key":     `{"agents":{"a":"AAAA"}}`,
		"no key":        `{"agents":{"a":""}}`,
		"anybody's":     `{"agents":{"a":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`,
		"not an object": `[]`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		wantError(t, s.Reload(), envelope.Malformed, path)
		wantError(t, s.Pin("b", key), envelope.Malformed, path)
		if after, _ := os.ReadFile(path); string(after) != text {
			t.Fatalf("%s: the file that somebody is just editing was overwritten", name)
		}
		if got, ok := s.Key("a"); !ok || got != key {
			t.Fatalf("%s: the old keys are gone", name)
		}
		if _, ok := s.Key("b"); ok {
			t.Fatal("pinned and not on disk")
		}
		if _, err := OpenKeyStore(path); err == nil {
			t.Fatalf("%s: opened", name)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Reload(), envelope.Malformed, path)
	if err := s.Pin("b", key); err != nil || openStore(t, path).Len() != 2 {
		t.Fatal(err, "a file that was removed is written anew")
	}
}

// What the administrator writes by hand survives the next pin, whether or not it was reloaded before.
func TestPinKeepsWhatWasEdited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.json")
	s := openStore(t, path)
	first, second, third := envelope.GenerateKey().Public(), envelope.GenerateKey().Public(), envelope.GenerateKey().Public()
	if err := s.Pin("a", first); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"agents": {"a": "`+second.String()+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Pin("b", third); err != nil {
		t.Fatal(err)
	}
	for _, store := range []*KeyStore{s, openStore(t, path)} {
		if got, _ := store.Key("a"); got != second || store.Len() != 2 {
			t.Fatal("the edit was undone")
		}
	}
	wantError(t, s.Pin("a", first), envelope.Conflict)
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"agents": {"a": "` + envelope.GenerateKey().Public().String() + `"}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text)
		if err != nil {
			return
		}
		again, err := parseKeys(formatKeys(keys))
		if err != nil || again.Len() != keys.Len() || string(formatKeys(again)) != string(formatKeys(keys)) {
			t.Fatal(err)
		}
	})
}

// BenchmarkPin is a start at which b.N agents come at once, 256 at a time.
func BenchmarkPin(b *testing.B) {
	s := openStore(b, filepath.Join(b.TempDir(), "k.json"))
	key := envelope.GenerateKey().Public()
	var next atomic.Int64
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Pin(fmt.Sprint("agent-", next.Add(1)), key); err != nil {
				b.Error(err)
			}
		}
	})
}

func TestKeyFileIsForPeople(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.json")
	s := openStore(t, path)
	key := envelope.GenerateKey().Public()
	for _, id := range []string{"b", "a"} {
		if err := s.Pin(id, key); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	want := strings.ReplaceAll("{\"agents\": {\n  \"a\": \"KEY\",\n  \"b\": \"KEY\"\n}}\n", "KEY", key.String())
	if err != nil || string(text) != want {
		t.Fatalf("%s, %v", text, err)
	}
}
