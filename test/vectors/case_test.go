package vectors

import (
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
)

// messageCase is one entry of the files of messages; README.md gives each member's meaning.
type messageCase struct {
	Name           string   `json:"name"`
	PublicKey      string   `json:"public_key,omitzero"`
	MaxPayload     int      `json:"max_payload,omitzero"`
	Document       string   `json:"document,omitzero"`
	DocumentBase64 string   `json:"document_base64,omitzero"`
	Binary         string   `json:"binary,omitzero"`
	Expect         string   `json:"expect"`
	Leaf           string   `json:"leaf,omitzero"`
	Payload        *string  `json:"payload_base64,omitzero"`
	Decoded        *decoded `json:"decoded,omitzero"`
}

// decoded is what a reader makes of a header, where that is not plain.
type decoded struct {
	TraceID      string   `json:"trace_id"`
	TTLSec       int      `json:"ttl_sec"`
	Priority     int      `json:"priority"`
	TimestampUTC string   `json:"timestamp_utc"`
	Chain        []string `json:"chain"`
	TargetAgent  string   `json:"target_agent"`
}

type ticketCase struct {
	Name             string `json:"name"`
	NodeKey          string `json:"node_key"`
	Ticket           string `json:"ticket"`
	Now              string `json:"now"`
	Expect           string `json:"expect"`
	Caller           string `json:"caller"`
	TargetCapability string `json:"target_capability"`
	Agent            string `json:"agent"`
	Admits           string `json:"admits,omitzero"`
}

type keyCase struct {
	Name        string `json:"name"`
	Seed        string `json:"seed"`
	PublicKey   string `json:"public_key"`
	Fingerprint string `json:"fingerprint"`
}

type publicKeyCase struct {
	Name   string `json:"name"`
	Text   string `json:"text"`
	Expect string `json:"expect"`
}

type keyFileCase struct {
	File       string `json:"file"`
	Passphrase string `json:"passphrase,omitzero"`
	PublicKey  string `json:"public_key,omitzero"`
	Expect     string `json:"expect"`
}

type codeCase struct {
	Code   envelope.Code `json:"code"`
	Status int           `json:"status"`
	NotRun bool          `json:"not_run"`
}

const ok = "ok"

// fixed keys: seed = 32 times one byte.
var (
	sender   = seedKey(1)
	stranger = seedKey(2)
	node     = seedKey(3)
)

func seedKey(b byte) envelope.PrivateKey {
	var seed [32]byte
	for i := range seed {
		seed[i] = b
	}
	return envelope.KeyFromSeed(seed)
}

func (c *messageCase) setDocument(doc []byte) {
	if utf8.Valid(doc) {
		c.Document = string(doc)
		return
	}
	c.DocumentBase64 = encode64(doc)
}

// ascii writes what no name should show as it is with escapes.
func ascii(s string) string {
	q := strconv.QuoteToASCII(s)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(q[1 : len(q)-1])
}

func encode64(b []byte) string  { return base64.StdEncoding.EncodeToString(b) }
func encodeHex(b []byte) string { return hex.EncodeToString(b) }

// document joins the parts as they are, well formed or not.
func document(header, payload string, seal *envelope.Seal) []byte {
	doc := `{"envelope":` + header
	if payload != "" {
		doc += `,"payload":` + payload
	}
	if seal != nil {
		doc += `,"seal":` + string(sealJSON(seal))
	}
	return []byte(doc + "}")
}

func sealJSON(s *envelope.Seal) []byte {
	path := make([]string, len(s.Path))
	for i, h := range s.Path {
		path[i] = encode64(h[:])
	}
	b, err := json.Marshal(struct {
		Sig    string   `json:"sig"`
		Index  int      `json:"index"`
		Leaves int      `json:"leaves"`
		Path   []string `json:"path"`
	}{encode64(s.Sig[:]), s.Index, s.Leaves, path})
	if err != nil {
		panic(err)
	}
	return b
}

// sealed makes an envelope of any bytes and seals it with the sender's key.
func sealed(header, payload string) *envelope.Envelope {
	e := &envelope.Envelope{RawHeader: []byte(header), Payload: []byte(payload)}
	envelope.Sign(sender, e)
	return e
}

// bothForms is the case of e as it stands, good or bad.
func bothForms(name string, e *envelope.Envelope, expect string) messageCase {
	c := messageCase{Name: name, PublicKey: sender.Public().String(), Expect: expect}
	c.setDocument(document(string(e.RawHeader), string(e.Payload), e.Seal))
	c.Binary = encode64(e.AppendBinary(nil))
	return c
}
