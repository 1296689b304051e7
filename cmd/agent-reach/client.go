package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/node"
	"github.com/agent-reach/agent-reach/sdk"
)

const (
	maxAnswer  = 256 << 20 // bytes of an answer, as large as a node's largest payload limit
	maxProblem = 64 << 10
	dialTime   = 5 * time.Second
	grace      = 2 * time.Second // beyond the deadline, for the node's own word about it to arrive
)

// callerFlags say which node is asked, and by whom.
type callerFlags struct {
	node, key, id string
	timeout       time.Duration
}

func (f *callerFlags) add(cmd *cobra.Command) {
	f.addNode(cmd)
	cmd.Flags().StringVar(&f.key, "key", "", "private key of the caller (default agent-reach/cli_ed25519.pem in the user's configuration folder, made on first use)")
	cmd.Flags().StringVar(&f.id, "id", "", "agent id of the caller (default cli- and the beginning of the key's fingerprint)")
}

func (f *callerFlags) addNode(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.node, "node", "", "URL of the node (default "+sdk.NodeVariable+", else "+sdk.DefaultNode+")")
	cmd.Flags().DurationVar(&f.timeout, "timeout", envelope.DefaultTTL*time.Second, "how long to wait for the answer")
}

// client is a caller at one node.
type client struct {
	http    *http.Client
	base    string // the node's URL
	node    nodeIdentity
	id      string
	key     envelope.PrivateKey
	timeout time.Duration
	began   time.Time
	keys    map[string]agentView // asked for already
}

// nodeIdentity is what a node says of itself.
type nodeIdentity struct {
	ID  string             `json:"node_id"`
	Key envelope.PublicKey `json:"public_key"`
}

// connect finds the node, without an identity of the caller.
func (f *callerFlags) connect(ctx context.Context) (*client, error) {
	if f.timeout < time.Millisecond || f.timeout > envelope.MaxTTL*time.Second {
		return nil, local("--timeout is %v; it must be 1ms to 24h", f.timeout)
	}
	c := &client{timeout: f.timeout, began: time.Now(), keys: make(map[string]agentView), http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext,
			MaxResponseHeaderBytes: maxProblem, DisableCompression: true,
		},
	}}
	var last error
	for _, address := range strings.Split(cmp.Or(f.node, os.Getenv(sdk.NodeVariable), sdk.DefaultNode), ",") {
		if c.base, last = nodeURL(address); last != nil {
			return nil, last
		}
		if last = c.identify(ctx); last == nil {
			return c, nil
		}
	}
	return nil, last
}

// connectAs is connect for a caller with a key.
func (f *callerFlags) connectAs(ctx context.Context) (*client, error) {
	key, err := f.loadKey()
	if err != nil {
		return nil, err
	}
	id := cmp.Or(f.id, "cli-"+key.Public().Fingerprint()[:8])
	if err := envelope.CheckAgentID("--id", id); err != nil {
		return nil, err
	}
	c, err := f.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.id, c.key = id, key
	return c, nil
}

func (f *callerFlags) loadKey() (envelope.PrivateKey, error) {
	if f.key != "" {
		return envelope.LoadKey(f.key, node.KeyPassphrase())
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return envelope.PrivateKey{}, local("no folder for the caller's key: %v", err).WithHint("name a key: --key FILE")
	}
	key, _, err := envelope.LoadOrCreateKey(filepath.Join(folder, "agent-reach", "cli_ed25519.pem"), node.KeyPassphrase())
	return key, err
}

func nodeURL(address string) (string, error) {
	address = strings.TrimSpace(address)
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", local("node address %q; it must be like %s", address, sdk.DefaultNode)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// identify learns the node's id and key, and that the one belongs to the other.
func (c *client) identify(ctx context.Context) error {
	var said struct {
		Nodes []nodeIdentity `json:"nodes"`
	}
	if err := c.get(ctx, "/v1/nodes", nil, &said); errors.Is(err, envelope.Malformed) {
		return noNode("%s does not answer as a node: %s", c.base, envelope.AsError(err).Text)
	} else if err != nil {
		return err
	}
	if len(said.Nodes) == 0 || said.Nodes[0].ID != said.Nodes[0].Key.Fingerprint() {
		return noNode("%s does not answer as a node: its id is not that of its key", c.base)
	}
	c.node = said.Nodes[0]
	return nil
}

// get asks for a document of the node's.
func (c *client) get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	ctx, cancel := context.WithTimeout(ctx, max(c.timeout, dialTime))
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.read(resp, into)
}

func (c *client) read(resp *http.Response, into any) error {
	if err := json.UnmarshalRead(io.LimitReader(resp.Body, maxAnswer), into); err != nil {
		return fromNode(envelope.Errorf(envelope.Malformed, envelope.StepAnswer, "the answer of %s cannot be read: %v", c.base, err).
			WithHint("is %s an agent-reach node of this version?", c.base))
	}
	return nil
}

// post sends a sealed message; the caller closes the body of the answer. A caller that the node does not know is registered, once.
func (c *client) post(ctx context.Context, path string, e *envelope.Envelope) (*http.Response, error) {
	resp, err := c.postOnce(ctx, http.MethodPost, path, e)
	if !errors.Is(err, envelope.UnknownAgent) {
		return resp, err
	}
	if err := c.register(ctx); err != nil {
		return nil, err
	}
	return c.postOnce(ctx, http.MethodPost, path, e)
}

func (c *client) postOnce(ctx context.Context, method, path string, e *envelope.Envelope) (*http.Response, error) {
	doc, err := e.AppendDocument(nil, nil)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, method, path, doc)
}

// register makes the caller known to the node: an agent that offers nothing.
func (c *client) register(ctx context.Context) error {
	payload, err := json.Marshal(&envelope.Descriptor{
		AgentID: c.id, DisplayName: "agent-reach command line", Capabilities: []envelope.Capability{}, PublicKey: c.key.Public(),
	})
	if err != nil {
		return err
	}
	e, err := c.sealed(envelope.Header{MsgType: envelope.Register, ToNode: c.node.ID}, payload)
	if err != nil {
		return err
	}
	resp, err := c.postOnce(ctx, http.MethodPost, "/v1/agents", e)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return c.answers(ctx, resp.Body, expected{e, c.node.ID}, func(*envelope.Envelope) error { return nil })
}

// sealed completes the header and seals the message.
func (c *client) sealed(h envelope.Header, payload []byte) (*envelope.Envelope, error) {
	h.MsgID, h.SourceAgent = rand.Text(), c.id
	h.Timestamp = envelope.Timestamp{Time: time.Now().UTC().Truncate(time.Millisecond)}
	h.TTLSec = int((c.timeout + time.Second - 1) / time.Second)
	e, err := envelope.New(h, payload)
	if err != nil {
		return nil, err
	}
	envelope.Sign(c.key, e)
	return e, nil
}

// send returns the 2xx answer; any other is the failure that its problem document tells.
func (c *client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, local("%v", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/x-ndjson, application/json")
		req.Header.Set("Agent-Reach-Timeout-Ms", strconv.FormatInt(max(c.timeout.Milliseconds(), 1), 10))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(ctx, err, body != nil)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.problem(resp)
}

// lost is what became of a request whose connection failed. A message that was being sent may have arrived, and run.
func (c *client) lost(ctx context.Context, err error, message bool) error {
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return noNode("%s: %v", c.base, dial)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fromNode(envelope.Errorf(envelope.Timeout, envelope.StepCall, "%s gave no answer within %v", c.base, c.timeout))
	case ctx.Err() != nil:
		return fromNode(envelope.Errorf(envelope.Timeout, envelope.StepCall, "given up"))
	}
	if message {
		return fromNode(envelope.Errorf(envelope.Timeout, envelope.StepCall, "the connection to %s broke before the answer: %v; it may have run", c.base, err))
	}
	return noNode("%s: %v", c.base, err)
}

// problem reads an RFC 9457 document as the error that it is.
func (c *client) problem(resp *http.Response) error {
	var said struct {
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil || json.Unmarshal(b, &said) != nil || said.Code == "" {
		return noNode("%s does not answer as a node: HTTP %s", c.base, resp.Status)
	}
	e := envelope.UnmarshalError(b)
	e.Text = said.Detail
	return fromNode(e)
}
