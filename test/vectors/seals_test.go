package vectors

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"slices"

	"github.com/agent-reach/agent-reach/envelope"
)

// batch is the case file of n messages under one signature. Every message of a small batch is in it, and a few of a large
// one; the messages at the places in twins also stand there tampered with.
func batch(n int, messages, twins []int) []messageCase {
	es := make([]*envelope.Envelope, n)
	for i := range es {
		es[i] = &envelope.Envelope{RawHeader: []byte(batchHeader(n, i)), Payload: []byte(batchPayload(n, i))}
	}
	envelope.Sign(sender, es...)
	var cases []messageCase
	for _, i := range messages {
		c := bothForms(fmt.Sprintf("message %d", i), es[i], ok)
		c.Leaf = leafHex(es[i])
		cases = append(cases, c)
	}
	for _, i := range twins {
		cases = append(cases, tampered(es, i)...)
	}
	return cases
}

func batchHeader(n, i int) string {
	return fmt.Sprintf(`{"version":"3.0","msg_id":"m-%d-%d","msg_type":"request","source_agent":"order-agent",`+
		`"target_capability":"stock.query","timestamp_utc":"2025-06-05T06:12:33Z"}`, n, i)
}

func batchPayload(n, i int) string { return fmt.Sprintf(`{"sku":"SKU-%d","of":%d}`, i, n) }

// leafHex is the leaf's hash by the formula of DESIGN.md, written down a second time.
func leafHex(e *envelope.Envelope) string {
	header, payload := sha256.Sum256(e.RawHeader), sha256.Sum256(e.Payload)
	leaf := sha256.Sum256(slices.Concat([]byte("\x00agent-reach/3.0"), header[:], payload[:]))
	return encodeHex(leaf[:])
}

// siblings is how many hashes the path at a place has.
func siblings(index, leaves int) (n int) {
	for ; leaves > 1; index, leaves = index/2, (leaves+1)/2 {
		if index%2 == 1 || index+1 < leaves {
			n++
		}
	}
	return n
}

// tampered lists what must not pass for message i, and the few changes to a seal that leave the proof as it was.
func tampered(es []*envelope.Envelope, i int) []messageCase {
	var cases []messageCase
	add := func(name, expect string, change func(e *envelope.Envelope)) {
		e := clone(es[i])
		change(e)
		cases = append(cases, bothForms(fmt.Sprintf("message %d: %s", i, name), e, expect))
	}
	add("payload byte flipped", "bad_seal", func(e *envelope.Envelope) { e.Payload[2] ^= 1 })
	add("payload absent", "bad_seal", func(e *envelope.Envelope) { e.Payload = nil })
	add("header byte flipped", "bad_seal", func(e *envelope.Envelope) { e.RawHeader[len(`{"version":"3.0","msg_id":"`)] ^= 1 })
	add("white space added to the payload", "bad_seal", func(e *envelope.Envelope) { e.Payload = slices.Insert(e.Payload, 1, ' ') })
	add("signature bit flipped in R", "bad_seal", func(e *envelope.Envelope) { e.Seal.Sig[0] ^= 1 })
	add("signature bit flipped in S", "bad_seal", func(e *envelope.Envelope) { e.Seal.Sig[40] ^= 1 })
	add("signature with S + L, the same point", "bad_seal", func(e *envelope.Envelope) { addOrder(e.Seal.Sig[32:]) })
	add("path longer by one", "malformed", func(e *envelope.Envelope) { e.Seal.Path = append(e.Seal.Path, envelope.Hash{}) })
	add("index not below leaves", "malformed", func(e *envelope.Envelope) { e.Seal.Index = e.Seal.Leaves })
	other := bothForms(fmt.Sprintf("message %d: another's key", i), es[i], "bad_seal")
	other.PublicKey = stranger.Public().String()
	cases = append(cases, other)
	if len(es) > 1 {
		cases = append(cases, tamperedPath(es, i)...)
	}
	return cases
}

func tamperedPath(es []*envelope.Envelope, i int) []messageCase {
	var cases []messageCase
	add := func(name, expect string, change func(e *envelope.Envelope)) {
		e := clone(es[i])
		change(e)
		cases = append(cases, bothForms(fmt.Sprintf("message %d: %s", i, name), e, expect))
	}
	n, last := len(es), len(es[i].Seal.Path)-1
	next := (i + 1) % n
	add("first sibling changed", "bad_seal", func(e *envelope.Envelope) { e.Seal.Path[0][0] ^= 1 })
	add("last sibling changed", "bad_seal", func(e *envelope.Envelope) { e.Seal.Path[last][31] ^= 1 })
	add("path shorter by one", "malformed", func(e *envelope.Envelope) { e.Seal.Path = e.Seal.Path[:last] })
	add("path empty, as if it were alone", "bad_seal", func(e *envelope.Envelope) { e.Seal.Path, e.Seal.Index, e.Seal.Leaves = nil, 0, 1 })
	wrong := "bad_seal"
	if siblings(next, n) != siblings(i, n) {
		wrong = "malformed"
	}
	add("index of its neighbour", wrong, func(e *envelope.Envelope) { e.Seal.Index = next })
	add("seal of its neighbour", "bad_seal", func(e *envelope.Envelope) { e.Seal = es[next].Seal })
	if last > 0 {
		add("siblings in reverse", "bad_seal", func(e *envelope.Envelope) { slices.Reverse(e.Seal.Path) })
	}
	for leaves := i + 1; leaves <= envelope.MaxLeaves; leaves++ { // one of each kind of wrong number of leaves
		if siblings(i, leaves) != siblings(i, n) {
			add("leaves wrong, another walk", "malformed", func(e *envelope.Envelope) { e.Seal.Leaves = leaves })
			break
		}
	}
	for leaves := i + 1; leaves <= envelope.MaxLeaves; leaves++ {
		if leaves != n && siblings(i, leaves) == siblings(i, n) {
			add("leaves wrong, the same walk: still the same proof", ok, func(e *envelope.Envelope) { e.Seal.Leaves = leaves })
			break
		}
	}
	return cases
}

func clone(e *envelope.Envelope) *envelope.Envelope {
	seal := *e.Seal
	seal.Path = slices.Clone(seal.Path)
	return &envelope.Envelope{RawHeader: slices.Clone(e.RawHeader), Payload: slices.Clone(e.Payload), Seal: &seal}
}

// addOrder adds the order of Ed25519's group to a little-endian number of 32 bytes.
func addOrder(s []byte) {
	order, _ := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
	order.Add(order, new(big.Int).Lsh(big.NewInt(1), 252))
	slices.Reverse(s)
	sum := order.Add(order, new(big.Int).SetBytes(s))
	sum.FillBytes(s)
	slices.Reverse(s)
}
