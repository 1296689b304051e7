package scenario

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"

	"github.com/agent-reach/agent-reach/envelope"
	"github.com/agent-reach/agent-reach/envelope/link"
)

// The frames of envelope/DESIGN.md, by hand: what no implementation of a link would send.
const (
	frameHello, frameProof, frameMessage, framePart, frameEnd, frameCancel, framePing, frameCredit, frameGoAway = 1, 2, 3, 4, 5, 6, 7, 8, 9
	flagFirst, flagLast                                                                                         = 1, 2
)

func rawFrame(kind, flags byte, call uint32, body string) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(6+len(body)))
	out = append(out, kind, flags)
	out = binary.BigEndian.AppendUint32(out, call)
	return append(out, body...)
}

// firstMessage is the body of a message's first frame.
func firstMessage(hop string, announced uint32, b string) string {
	out := append([]byte{byte(len(hop))}, hop...)
	out = binary.BigEndian.AppendUint32(out, announced)
	return string(out) + b
}

// goodHop is 30 s, three hops, priority 5, no attempts.
const goodHop = "\x00\x00\x75\x30\x03\x05\x00"

// noEnvelope is 70 bytes that a link carries and nobody can read.
var noEnvelope = strings.Repeat("x", 70)

// rawLink is a link whose frames are written and read by hand.
type rawLink struct {
	t    testing.TB
	conn io.ReadWriteCloser
	in   *bufio.Reader
}

func openSocket(t testing.TB, n *node) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(short(t), "ws://"+n.addr+"/v1/link", &websocket.DialOptions{Subprotocols: []string{link.Subprotocol}})
	must(t, err)
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

func openRaw(t testing.TB, n *node) *rawLink {
	conn := link.WebSocket(openSocket(t, n))
	return &rawLink{t, conn, bufio.NewReader(conn)}
}

func (l *rawLink) write(b []byte) { _, _ = l.conn.Write(b) } // a peer that hung up meanwhile is what the test looks for next

// hello is a good hello's body for the voice.
func (v *voice) hello() string {
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce)
	return fmt.Sprintf(`{"version":"3.0","role":"agent","id":%q,"key":%q,"nonce":%q,"max_message":4200448,"max_calls":100,"window":262144,"time":%q}`,
		v.id, v.key.Public(), base64.StdEncoding.EncodeToString(nonce), time.Now().UTC().Format(time.RFC3339Nano))
}

// shake makes the handshake.
func (l *rawLink) shake(v *voice) {
	l.t.Helper()
	hello := v.hello()
	l.write(rawFrame(frameHello, 0, 0, hello))
	kind, theirs := l.next()
	if kind != frameHello {
		l.t.Fatalf("frame %d instead of hello: %s", kind, theirs)
	}
	a, b := sha256.Sum256([]byte(hello)), sha256.Sum256([]byte(theirs))
	sig := v.key.SignFor("agent-reach/3.0 link dial", append(a[:], b[:]...))
	l.write(rawFrame(frameProof, 0, 0, `{"sig":"`+base64.StdEncoding.EncodeToString(sig)+`"}`))
	if kind, body := l.next(); kind != frameProof {
		l.t.Fatalf("frame %d instead of proof: %s", kind, body)
	}
}

// next reads the next frame that is no ping; kind 0: the node has hung up.
func (l *rawLink) next() (kind byte, body string) {
	l.t.Helper()
	type frame struct {
		kind byte
		body string
	}
	got := make(chan frame, 1)
	go func() {
		var head [10]byte
		if _, err := io.ReadFull(l.in, head[:]); err != nil {
			got <- frame{}
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(head[:])-6)
		if _, err := io.ReadFull(l.in, b); err != nil {
			got <- frame{}
			return
		}
		got <- frame{head[4], string(b)}
	}()
	f := within(l.t, got, "a frame")
	if f.kind == framePing && !strings.HasPrefix(f.body, "mine") {
		return l.next()
	}
	return f.kind, f.body
}

// lastWords reads until the node hangs up, and returns what its goaway said, if it said one.
func (l *rawLink) lastWords() *envelope.Error {
	l.t.Helper()
	var said *envelope.Error
	for {
		kind, body := l.next()
		switch kind {
		case 0:
			return said
		case frameGoAway:
			said = envelope.UnmarshalError([]byte(body))
		}
	}
}

// TestBadHandshakes: a link whose handshake is wrong is told so, and closed; the node goes on.
func TestBadHandshakes(t *testing.T) {
	n, v := inputNode(t)
	good := v.hello()
	for what, tt := range map[string]struct {
		bytes []byte
		code  envelope.Code
	}{
		"words":                   {[]byte("GET / HTTP/1.1\r\n\r\n"), envelope.Malformed},
		"a length of 4 GiB":       {bytes.Repeat([]byte{0xff}, 100), envelope.Malformed},
		"a length of nothing":     {make([]byte, 100), envelope.Malformed},
		"a message before hello":  {rawFrame(frameMessage, flagFirst|flagLast, 1, firstMessage(goodHop, 1, "x")), envelope.Malformed},
		"a hello that is no JSON": {rawFrame(frameHello, 0, 0, "hello"), envelope.Malformed},
		"a hello too long":        {rawFrame(frameHello, 0, 0, strings.Repeat("x", 60_000)), envelope.Malformed},
		"another version":         {rawFrame(frameHello, 0, 0, strings.Replace(good, `"3.0"`, `"9.9"`, 1)), envelope.Unsupported},
		"a role of its own":       {rawFrame(frameHello, 0, 0, strings.Replace(good, `"agent"`, `"king"`, 1)), envelope.Malformed},
		"a short nonce":           {rawFrame(frameHello, 0, 0, strings.Replace(good, `"nonce":"`, `"nonce":"","old":"`, 1)), envelope.Malformed},
		"no proof but a message":  {append(rawFrame(frameHello, 0, 0, good), rawFrame(frameMessage, flagFirst|flagLast, 1, firstMessage(goodHop, 1, "x"))...), envelope.Malformed},
		"a proof of nothing": {append(rawFrame(frameHello, 0, 0, good),
			rawFrame(frameProof, 0, 0, `{"sig":"`+base64.StdEncoding.EncodeToString(make([]byte, 64))+`"}`)...), envelope.BadSeal},
	} {
		l := openRaw(t, n)
		l.write(tt.bytes)
		if said := l.lastWords(); said == nil || said.Code != tt.code || len(said.Text) < 10 {
			t.Errorf("%s: the last words are %v, not %s", what, said, tt.code)
		}
	}
	_, err := link.Dial(short(t), link.WebSocket(openSocket(t, n)), link.Config{Role: link.Node, ID: v.id, Key: v.key})
	if e := envelope.AsError(err); err == nil || e.Code != envelope.Unsupported {
		t.Errorf("a node's role: %v", err)
	}
	conn := openSocket(t, n)
	must(t, conn.Write(short(t), websocket.MessageText, []byte("hello")))
	if _, _, err := conn.Read(short(t)); err == nil {
		t.Error("a text message was answered")
	}
	if r := v.ask("echo.say", `{}`); r.status != http.StatusOK {
		t.Errorf("after all that: %s", r.body)
	}
}

// TestBadFrames: what breaks the protocol of an open link ends it with a word; what concerns one call ends that call only.
func TestBadFrames(t *testing.T) {
	n, v := inputNode(t)
	message := func(call uint32, announced int) []byte { // of 70 bytes
		return rawFrame(frameMessage, flagFirst|flagLast, call, firstMessage(goodHop, uint32(announced), noEnvelope))
	}
	begun := rawFrame(frameMessage, flagFirst, 1, firstMessage(goodHop, 100, "abc"))
	for what, b := range map[string][]byte{
		"an even call number":            message(2, 70),
		"call number 0":                  message(0, 70),
		"a number that falls":            append(message(3, 70), message(1, 70)...),
		"less than announced":            message(1, 99),
		"more than announced":            message(1, 69),
		"an announcement of nothing":     message(1, 0),
		"a hop that is too short":        rawFrame(frameMessage, flagFirst|flagLast, 1, firstMessage("abc", 70, noEnvelope)),
		"a frame that is too long":       append(binary.BigEndian.AppendUint32(nil, 65_543), make([]byte, 65_543)...),
		"a first frame without its size": rawFrame(frameMessage, flagFirst, 1, "\x00"),
		"a message within a message":     append(begun, begun...),
		"a second hello":                 rawFrame(frameHello, 0, 0, v.hello()),
		"credit without a number":        append(begun, rawFrame(frameCredit, 0, 1, "x")...),
		"a ping of no bytes":             rawFrame(framePing, 0, 0, ""),
	} {
		l := openRaw(t, n)
		l.shake(v)
		l.write(b)
		if said := l.lastWords(); said == nil || said.Code != envelope.Malformed || len(said.Text) < 10 {
			t.Errorf("%s: the last words are %v", what, said)
		}
	}
	if r := v.ask("echo.say", `{}`); r.status != http.StatusOK {
		t.Errorf("after all that: %s", r.body)
	}
}

// TestOddFrames: what is only odd is skipped, and one bad call harms no other on its link.
func TestOddFrames(t *testing.T) {
	n, v := inputNode(t)
	l := openRaw(t, n)
	l.shake(v)
	l.write(rawFrame(200, 0xff, 7, "a type of the future"))
	l.ends(rawFrame(frameMessage, flagFirst|flagLast, 1, firstMessage(goodHop, 70, noEnvelope)), envelope.Malformed)
	l.write(rawFrame(frameCancel, 0, 1, "")) // of a call that is over
	l.write(rawFrame(frameCredit, 0, 1, "\x00\x00\x10\x00"))
	l.ends(rawFrame(frameMessage, flagFirst, 3, firstMessage(goodHop, 64<<20, "abc")), envelope.TooLarge)
	good := string(v.seal(v.header(envelope.Request, "echo.say"), `{}`).AppendBinary(nil))
	l.write(rawFrame(frameMessage, flagFirst|flagLast, 7, firstMessage(goodHop+"more of the future", uint32(len(good)), good)))
	for {
		kind, body := l.next()
		if kind == framePart {
			e, err := envelope.DecodeBinary([]byte(body[4:]), 1<<20)
			must(t, err)
			if string(e.Payload) != `"said"` {
				t.Errorf("answer %s", e.Payload)
			}
			return
		}
		if kind != frameCredit {
			t.Fatalf("frame %d instead of the answer: %s", kind, body)
		}
	}
}

// ends writes a message whose call must end with the code.
func (l *rawLink) ends(b []byte, code envelope.Code) {
	l.t.Helper()
	l.write(b)
	for {
		kind, body := l.next()
		if kind == frameCredit {
			continue
		}
		if kind != frameEnd {
			l.t.Fatalf("frame %d instead of end: %s", kind, body)
		}
		if e := envelope.UnmarshalError([]byte(body)); e.Code != code || len(e.Text) < 10 {
			l.t.Errorf("the call ended with %v, not %s", e, code)
		}
		return
	}
}

// TestBadUpgrades: what asks for a link and is no WebSocket of this protocol is told what would be.
func TestBadUpgrades(t *testing.T) {
	n, v := inputNode(t)
	for what, drop := range map[string]string{"no upgrade": "Upgrade", "no version": "Sec-WebSocket-Version", "no key": "Sec-WebSocket-Key", "no protocol": "Sec-WebSocket-Protocol"} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, n.url+"/v1/link", nil)
		must(t, err)
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==", "Sec-WebSocket-Protocol": link.Subprotocol,
		} {
			if name != drop {
				req.Header.Set(name, value)
			}
		}
		resp, err := v.http.Do(req)
		must(t, err)
		var p problem
		err = json.UnmarshalRead(resp.Body, &p)
		resp.Body.Close()
		if err != nil || resp.StatusCode/100 == 2 || p.Detail == "" || p.Hint == "" {
			t.Errorf("%s: %s %+v, %v", what, resp.Status, p, err)
		}
	}
}
