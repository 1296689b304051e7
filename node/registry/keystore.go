package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/agent-reach/agent-reach/envelope"
)

// MaxPins bounds the keys in a key store.
const MaxPins = 1 << 20

// keyTree maps agent ids to keys. It is immutable.
type keyTree = iradix.Tree[envelope.PublicKey]

// KeyStore knows which key each agent has: public_key_store, a file
//
//	{"agents": {"order-agent": "base64 of the public key"}}
//
// that the administrator edits and that first use adds to. A key that Key returns is on disk. It is safe for concurrent use; Key takes
// no lock.
type KeyStore struct {
	path string
	keys atomic.Pointer[keyTree]

	writing sync.Mutex  // held while the file is read or written
	onDisk  fs.FileInfo // of the file that keys equals; nil: there is none

	mu   sync.Mutex
	next *pins // waiting for the write after the one under way
}

// pins are written together: whoever adds the first of them writes them all.
type pins struct {
	keys map[string]envelope.PublicKey
	done chan struct{}
	err  error
}

// OpenKeyStore reads the file at path; a missing one is an empty store.
//
// Errors: Malformed, with file and place.
func OpenKeyStore(path string) (*KeyStore, error) {
	s := &KeyStore{path: path}
	s.keys.Store(iradix.New[envelope.PublicKey]())
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Path is where the file is.
func (s *KeyStore) Path() string { return s.path }

// Key is the key of the agent with this id.
func (s *KeyStore) Key(agent string) (envelope.PublicKey, bool) {
	return s.keys.Load().Get([]byte(agent))
}

// Len is the number of keys.
func (s *KeyStore) Len() int { return s.keys.Load().Len() }

// Reload takes over what the file says now. After an error the store is as before.
//
// Errors: Malformed, with file and place; a missing file too.
func (s *KeyStore) Reload() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.read()
}

func (s *KeyStore) read() error {
	info, err := os.Stat(s.path)
	var text []byte
	if err == nil {
		text, err = os.ReadFile(s.path)
	}
	if err != nil {
		return envelope.Errorf(envelope.Malformed, envelope.StepKey, "public key store: %v", err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return envelope.Errorf(envelope.Malformed, envelope.StepKey, "public key store %s: %s", s.path, err).
			WithHint(`it must be {"agents": {"id": "base64 of 32 bytes"}}; until it is, the keys known before stay in force`)
	}
	s.keys.Store(keys)
	s.onDisk = info
	return nil
}

func parseKeys(text []byte) (*keyTree, error) {
	var file struct {
		Agents map[string]envelope.PublicKey `json:"agents"`
	}
	if err := json.Unmarshal(text, &file, json.RejectUnknownMembers(true)); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if len(file.Agents) > MaxPins {
		return nil, fmt.Errorf("%d keys; the limit is %d", len(file.Agents), MaxPins)
	}
	t := iradix.New[envelope.PublicKey]().Txn()
	for id, key := range file.Agents {
		if err := envelope.CheckAgentID("an id under agents", id); err != nil {
			return nil, errors.New(envelope.AsError(err).Text)
		}
		if key.IsZero() {
			return nil, fmt.Errorf("the key of %s is empty", id)
		}
		t.Insert([]byte(id), key)
	}
	return t.Commit(), nil
}

// Pin gives the id to the key for good, and returns when that is on disk. Pins that come together are written together.
//
// Errors: Conflict if another key holds the id; Overloaded at MaxPins; Internal or Malformed if the file cannot be written or was broken by
// hand: then the key is not pinned.
func (s *KeyStore) Pin(agent string, key envelope.PublicKey) error {
	if known, ok := s.Key(agent); ok {
		return heldBy(agent, known, key)
	}
	b, first := s.join(agent, key)
	if first {
		s.write(b)
	}
	<-b.done
	if b.err != nil {
		return b.err
	}
	known, _ := s.Key(agent)
	return heldBy(agent, known, key)
}

// heldBy is nil if known is key, else Conflict.
func heldBy(agent string, known, key envelope.PublicKey) error {
	if known == key {
		return nil
	}
	return refuse(envelope.Conflict, "%s is held by the key with fingerprint %s, and this one has %s; nothing was changed",
		agent, known.Fingerprint(), key.Fingerprint()).
		WithHint("choose another agent_id; if the key was changed on purpose, the administrator removes the old one from the public key store")
}

// join adds a pin to those that wait; first: the caller writes them. Of two keys for one id the first stays.
func (s *KeyStore) join(agent string, key envelope.PublicKey) (b *pins, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &pins{keys: make(map[string]envelope.PublicKey), done: make(chan struct{})}
		first = true
	}
	if _, taken := s.next.keys[agent]; !taken {
		s.next.keys[agent] = key
	}
	return s.next, first
}

// write waits for the write before, and then writes everything that has joined b.
func (s *KeyStore) write(b *pins) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	b.err = s.add(b.keys)
	close(b.done)
}

// add writes the file with the new keys, and only then lets Key see them.
func (s *KeyStore) add(pins map[string]envelope.PublicKey) error {
	if err := s.catchUp(); err != nil {
		return err
	}
	t := s.keys.Load().Txn()
	for id, key := range pins {
		if _, ok := t.Get([]byte(id)); !ok {
			t.Insert([]byte(id), key)
		}
	}
	keys := t.Commit()
	if keys.Len() > MaxPins {
		return refuse(envelope.Overloaded, "the public key store %s holds %d keys, its limit", s.path, s.Len()).
			WithHint("the administrator removes the keys of agents that are gone")
	}
	if err := envelope.WriteFile(s.path, formatKeys(keys)); err != nil {
		return refuse(envelope.Internal, "the key could not be written to the public key store: %v; nothing was registered", err).
			WithHint("the node must be able to write %s; with auth.enrollment: keystore it only reads it", s.path)
	}
	s.keys.Store(keys)
	s.onDisk, _ = os.Stat(s.path)
	return nil
}

// catchUp reads a file that was changed by hand since, so that no write of ours undoes the change. One that is not there is written
// anew, or fails to be.
func (s *KeyStore) catchUp() error {
	info, err := os.Stat(s.path)
	if err != nil || s.onDisk != nil && sameFile(info, s.onDisk) {
		return nil
	}
	return s.read()
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// formatKeys writes one agent a line, sorted by id, whose alphabet needs no escapes.
func formatKeys(keys *keyTree) []byte {
	var b bytes.Buffer
	b.WriteString("{\"agents\": {")
	separator := "\n  "
	keys.Root().Walk(func(id []byte, key envelope.PublicKey) bool {
		fmt.Fprintf(&b, "%s\"%s\": \"%s\"", separator, id, key)
		separator = ",\n  "
		return false
	})
	b.WriteString("\n}}\n")
	return b.Bytes()
}
