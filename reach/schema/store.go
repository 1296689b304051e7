package schema

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/agent-reach/agent-reach/envelope"
)

// largePayload is what a payload must exceed, in bytes, for its check to need one of the Store's places.
const largePayload = 64 << 10

// Store holds compiled schemas by id, shared by all capabilities that declare the same bytes and counted, so that it holds
// no more than is registered. It is safe for concurrent use; Check takes no lock.
//
// A check may need thirty times the payload's bytes. Therefore only as many large payloads are checked at once as there are
// processors, which costs no time, and the others wait.
type Store struct {
	mu      sync.Mutex    // guards every entry's refs, and adding and removing entries
	entries sync.Map      // envelope.SchemaID to *entry
	large   chan struct{} // holds one for each large payload being checked
}

type entry struct {
	refs   int
	once   sync.Once // sets schema or err
	schema atomic.Pointer[Schema]
	err    error
}

// NewStore makes an empty store.
func NewStore() *Store {
	return &Store{large: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// Add compiles raw unless it is there already, and counts one more user of it. The id is zero for an absent schema. After an
// error nothing was added.
//
// Errors: those of Compile.
func (s *Store) Add(raw []byte) (envelope.SchemaID, error) {
	id := ID(raw)
	if id == (envelope.SchemaID{}) {
		return id, nil
	}
	e := s.take(id)
	e.once.Do(func() { e.compile(raw) })
	if e.err != nil {
		s.Drop(id)
		return envelope.SchemaID{}, e.err
	}
	return id, nil
}

func (e *entry) compile(raw []byte) {
	var compiled *Schema
	if compiled, e.err = Compile(raw); e.err == nil {
		e.schema.Store(compiled)
	}
}

func (s *Store) take(id envelope.SchemaID) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(id)
	if e == nil {
		e = &entry{}
		s.entries.Store(id, e)
	}
	e.refs++
	return e
}

func (s *Store) entry(id envelope.SchemaID) *entry {
	v, ok := s.entries.Load(id)
	if !ok {
		return nil
	}
	return v.(*entry)
}

// Drop takes back one Add of the schema; the last one frees it. The zero id and an unknown one are ignored.
func (s *Store) Drop(id envelope.SchemaID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(id)
	if e == nil {
		return
	}
	if e.refs--; e.refs == 0 {
		s.entries.Delete(id)
	}
}

// Check is Schema.Check for the schema with that id, which must have been added. The zero id accepts everything.
//
// Errors: those of Schema.Check; Internal for an id that is not there.
func (s *Store) Check(id envelope.SchemaID, payload []byte) error {
	if id == (envelope.SchemaID{}) {
		return nil
	}
	if e := s.entry(id); e != nil {
		if compiled := e.schema.Load(); compiled != nil {
			return s.check(compiled, payload)
		}
	}
	return envelope.Errorf(envelope.Internal, envelope.StepCheck, "schema %x is not in the store", id[:8])
}

func (s *Store) check(compiled *Schema, payload []byte) error {
	if len(payload) > largePayload {
		s.large <- struct{}{}
		defer func() { <-s.large }()
	}
	return compiled.Check(payload)
}
