package sdk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/agent-reach/agent-reach/envelope"
)

// maxKeys bounds the keys remembered; beyond it any one is forgotten and asked for again.
const maxKeys = 10_000

// maxAgentDocument bounds what is read of a node's word about one agent, in bytes. Schemas are most of it, and are skipped, not held.
const maxAgentDocument = 128 << 20

// keyring knows the public keys of agents, as nodes publish them.
type keyring struct {
	mu   sync.Mutex
	keys map[string]*keyEntry
}

type keyEntry struct {
	known chan struct{} // closed when key or err is set
	key   envelope.PublicKey
	err   error
}

// verify checks part's seal with its source's key; where the one remembered does not fit, with the one published now.
func (k *keyring) verify(ctx context.Context, s *session, part *envelope.Envelope) error {
	from := part.Header.SourceAgent
	e, fresh := k.entry(ctx, s, from, nil)
	err := s.agent.check(part, e)
	if !fresh && (errors.Is(err, envelope.BadSeal) || e.err != nil) {
		e, _ = k.entry(ctx, s, from, e)
		err = s.agent.check(part, e)
	}
	return answerFault(from, err)
}

func (a *Agent) check(part *envelope.Envelope, e *keyEntry) error {
	if e.err != nil {
		return e.err
	}
	return a.verifier.Verify(part, e.key)
}

// entry is the agent's entry, asked for now (fresh) if there is none or only stale. Of several that want the same, one asks.
func (k *keyring) entry(ctx context.Context, s *session, agent string, stale *keyEntry) (e *keyEntry, fresh bool) {
	k.mu.Lock()
	e = k.keys[agent]
	if e == nil || e == stale {
		e, fresh = &keyEntry{known: make(chan struct{})}, true
		k.put(agent, e)
	}
	k.mu.Unlock()
	if fresh {
		e.key, e.err = s.agent.publishedKey(ctx, s.home.url, agent)
		if e.err != nil {
			k.forget(agent, e)
		}
		close(e.known)
		return e, true
	}
	select {
	case <-e.known:
		return e, false
	case <-ctx.Done():
		return &keyEntry{err: envelope.Errorf(envelope.Timeout, envelope.StepAnswer, "its key was not known in time")}, true
	}
}

// put remembers an entry. The caller holds mu.
func (k *keyring) put(agent string, e *keyEntry) {
	if k.keys == nil {
		k.keys = make(map[string]*keyEntry)
	}
	for other := range k.keys {
		if len(k.keys) < maxKeys {
			break
		}
		delete(k.keys, other)
	}
	k.keys[agent] = e
}

func (k *keyring) forget(agent string, e *keyEntry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys[agent] == e {
		delete(k.keys, agent)
	}
}

// publishedKey asks the node for the agent's key. A node that does not answer is followed by the others.
func (a *Agent) publishedKey(ctx context.Context, node, agent string) (envelope.PublicKey, error) {
	key, err := a.keyFrom(ctx, node, agent)
	for _, other := range a.cfg.nodes {
		if !errors.Is(err, envelope.Unreachable) {
			break
		}
		if other != node {
			key, err = a.keyFrom(ctx, other, agent)
		}
	}
	return key, err
}

func (a *Agent) keyFrom(ctx context.Context, node, agent string) (envelope.PublicKey, error) {
	resp, err := a.fetch(ctx, http.MethodGet, node+"/v1/agents/"+url.PathEscape(agent), nil)
	if err != nil {
		return envelope.PublicKey{}, err
	}
	defer resp.Body.Close()
	key, err := readKey(io.LimitReader(resp.Body, maxAgentDocument))
	if err != nil {
		return envelope.PublicKey{}, envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "node %s does not tell the key of %s: %v", node, agent, err)
	}
	return key, nil
}

var errNoKey = errors.New(`no "public_key"`)

// readKey finds the member public_key of an object without holding the rest of it.
func readKey(r io.Reader) (key envelope.PublicKey, err error) {
	d := jsontext.NewDecoder(r)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return key, errNoKey
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return key, err
		}
		if name.String() == "public_key" {
			if err := json.UnmarshalDecode(d, &key); err == nil && !key.IsZero() {
				return key, nil
			}
			return envelope.PublicKey{}, errNoKey
		}
		if err := d.SkipValue(); err != nil {
			return key, err
		}
	}
	return key, errNoKey
}
