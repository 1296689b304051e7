package registry

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/reach"
)

// Attach takes in an HTTP agent that has no key: this node keeps a key for it and seals in its name. The message is the operator's: its
// source is this node, and it is sealed by the node's key. Agent and key are kept in files, and taken in again at the next start.
func (r *Registry) Attach(ctx context.Context, m *reach.Message) (*envelope.Envelope, error) {
	if err := r.fromOperator(m); err != nil {
		return nil, err
	}
	d, err := envelope.DecodeDescriptor(m.Payload)
	if err == nil {
		err = r.checkAttached(d)
	}
	if err != nil {
		return nil, err
	}
	e, g, err := r.attach(ctx, m, d)
	if err != nil {
		return nil, err
	}
	g.await(ctx)
	return r.registered(m, e)
}

// fromOperator admits a message that only whoever holds the node's key can have made.
func (r *Registry) fromOperator(m *reach.Message) error {
	if err := r.toUs(m); err != nil {
		return err
	}
	if m.Header.SourceAgent != r.Node {
		return refuse(envelope.Forbidden, "only the operator attaches agents: the source must be node %s, not %s", r.Node, m.Header.SourceAgent).
			WithHint("agent-reach attach FILE, on the node's machine, seals with the node's key")
	}
	return r.Admission.AdmitAs(m, r.Key.Public(), time.Now())
}

func (r *Registry) checkAttached(d *envelope.Descriptor) error {
	switch {
	case r.cfg.AttachedDir == "":
		return refuse(envelope.Unsupported, "this node has no folder for attached agents")
	case !d.PublicKey.IsZero():
		return refuse(envelope.Malformed, "%s has a public_key; an agent with a key of its own registers itself", d.AgentID)
	case d.Endpoint.Type != envelope.HTTPEndpoint:
		return refuse(envelope.Unsupported, "endpoint type of %s is %q; only http agents can be attached", d.AgentID, d.Endpoint.Type)
	}
	return r.checkDescriptor(d)
}

// attach makes key, file and entry; after an error there is no new file but perhaps the key's.
func (r *Registry) attach(ctx context.Context, m *reach.Message, d *envelope.Descriptor) (*entry, *registration, error) {
	r.attaching.Lock()
	defer r.attaching.Unlock()
	g, err := r.vouchFor(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	if err = r.Admission.Accept(m, time.Now()); err != nil {
		r.drop(g.schemas)
		return nil, nil, err
	}
	e, err := r.keep(m, g)
	if err != nil {
		r.drop(g.schemas)
		r.Admission.Forget(m)
		return nil, nil, err
	}
	r.Log.Info("agent registered", "id", e.id, "capability_count", len(d.Capabilities), "addr", d.Endpoint.URL, "file", r.file(e.id, ".json"))
	return e, g, nil
}

// keep writes the descriptor's file and installs g; if that fails the file is as before.
func (r *Registry) keep(m *reach.Message, g *registration) (*entry, error) {
	file := r.file(g.descriptor.AgentID, ".json")
	before, readErr := os.ReadFile(file)
	if err := envelope.WriteFile(file, m.Payload); err != nil {
		return nil, refuse(envelope.Internal, "the attached agent could not be kept: %v; nothing was attached", err)
	}
	e, err := r.install(g, arrival{key: g.descriptor.PublicKey, said: m.Header.Timestamp.Time, attached: true})
	switch {
	case err == nil:
		return e, nil
	case readErr == nil:
		err = errors.Join(err, envelope.WriteFile(file, before))
	default:
		err = errors.Join(err, os.Remove(file))
	}
	return nil, err
}

// vouchFor prepares the registration of a keyless agent under the key that the node keeps for it.
func (r *Registry) vouchFor(ctx context.Context, d *envelope.Descriptor) (*registration, error) {
	if err := r.free(d.AgentID); err != nil {
		return nil, err
	}
	key, _, err := envelope.LoadOrCreateKey(r.file(d.AgentID, ".pem"), nil)
	if err != nil {
		return nil, err
	}
	d.PublicKey = key.Public()
	return r.prepare(ctx, d, way{key: d.PublicKey, vouch: key})
}

// free checks that no agent with a key of its own holds the id.
func (r *Registry) free(id string) error {
	if key, ok := r.Keys.Key(id); ok {
		return taken(id, key)
	}
	if rec := r.Directory.Agent(id); rec != nil && rec.VouchedBy != r.Node {
		return taken(id, rec.Key)
	}
	return nil
}

func taken(id string, key envelope.PublicKey) error {
	return refuse(envelope.Conflict, "%s is held by an agent whose key has the fingerprint %s; nothing was attached", id, key.Fingerprint()).
		WithHint("choose another agent_id")
}

func (r *Registry) file(id, ending string) string { return filepath.Join(r.cfg.AttachedDir, id+ending) }

// detach takes out the attached agent that the operator names in target_agent.
func (r *Registry) detach(m *reach.Message) (*envelope.Envelope, error) {
	if err := r.fromOperator(m); err != nil {
		return nil, err
	}
	r.attaching.Lock()
	defer r.attaching.Unlock()
	id := m.Header.TargetAgent
	e, ok := r.entries.Load(id)
	if !ok || !r.byOperator(e) {
		return nil, refuse(envelope.UnknownAgent, "no agent %q was attached by the operator", id).
			WithHint("target_agent names it; an agent with a key unregisters itself")
	}
	if err := r.Admission.Accept(m, time.Now()); err != nil {
		return nil, err
	}
	for _, ending := range []string{".json", ".pem"} { // without the first, the second is never read
		if err := os.Remove(r.file(id, ending)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.Admission.Forget(m)
			return nil, refuse(envelope.Internal, "the file of %s could not be removed: %v", id, err)
		}
	}
	return r.answer(m, &left{r.drain(e)})
}

func (r *Registry) byOperator(e *entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.attached
}

// loadTime bounds what looking up the addresses of attached agents may delay the start.
const loadTime = 2 * time.Second

// loadAttached takes in what AttachedDir holds.
func (r *Registry) loadAttached() {
	if r.cfg.AttachedDir == "" {
		return
	}
	files, err := os.ReadDir(r.cfg.AttachedDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.Log.Error("attached agents cannot be read", "file", r.cfg.AttachedDir, "err", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), loadTime)
	defer cancel()
	for _, file := range files {
		id, ok := strings.CutSuffix(file.Name(), ".json")
		if !ok || strings.HasPrefix(id, ".") { // a point: left by a write that was cut short
			continue
		}
		if err := r.load(ctx, id); err != nil {
			r.Log.Error("attached agent skipped", "file", r.file(id, ".json"), "err", err)
		}
	}
}

func (r *Registry) load(ctx context.Context, id string) error {
	text, err := os.ReadFile(r.file(id, ".json"))
	if err != nil {
		return err
	}
	d, err := envelope.DecodeDescriptor(text)
	if err == nil {
		err = r.checkAttached(d)
	}
	if err != nil {
		return err
	}
	if id != d.AgentID {
		return envelope.Errorf(envelope.Malformed, envelope.StepConfig, "the file is of %s by its name, and of %s by its agent_id", id, d.AgentID)
	}
	g, err := r.vouchFor(ctx, d)
	if err != nil {
		return err
	}
	if _, err := r.install(g, arrival{key: d.PublicKey, attached: true}); err != nil {
		r.drop(g.schemas)
		return err
	}
	r.Log.Info("agent registered", "id", id, "capability_count", len(d.Capabilities), "addr", d.Endpoint.URL, "file", r.file(id, ".json"))
	return nil
}
