package envelope_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"github.com/agent-reach/agent-reach/envelope"
)

func sealedBatch(t testing.TB, n int) []*envelope.Envelope {
	es := make([]*envelope.Envelope, n)
	for i := range es {
		h := request()
		h.MsgID = fmt.Sprintf("m-%d-%d", n, i)
		es[i] = message(t, h, fmt.Sprintf(`{"n":%d}`, i))
	}
	envelope.Sign(seller, es...)
	return es
}

// TestBatchesOfEverySize: every message of every batch verifies on its own, in both forms.
func TestBatchesOfEverySize(t *testing.T) {
	verifier := envelope.NewVerifier(8)
	for n := 1; n <= envelope.MaxLeaves; n++ {
		if race && n > 17 && n < envelope.MaxLeaves {
			continue
		}
		for i, e := range sealedBatch(t, n) {
			if e.Seal.Index != i || e.Seal.Leaves != n || len(e.Seal.Path) > 8 {
				t.Fatalf("message %d of %d has the seal %+v", i, n, e.Seal)
			}
			bin, err := envelope.DecodeBinary(e.AppendBinary(nil), 100)
			ok(t, err)
			ok(t, verifier.Verify(bin, seller.Public()))
			if i == n-1 || i == n/2 { // one signature check each: not for all 32 896
				ok(t, bin.Verify(seller.Public()))
				want(t, bin.Verify(another.Public()), envelope.BadSeal, "order-agent", another.Public().String())
			}
		}
	}
}

// TestASealIsForOneMessage puts every seal of a batch on every message.
func TestASealIsForOneMessage(t *testing.T) {
	for _, n := range []int{2, 3, 5, 7, 8} {
		es := append(sealedBatch(t, n), sealedBatch(t, n+1)...)
		for i, e := range es {
			for j, other := range es {
				moved := &envelope.Envelope{Header: e.Header, RawHeader: e.RawHeader, Payload: e.Payload, Seal: other.Seal}
				if err := moved.Verify(seller.Public()); (err == nil) != (i == j) {
					t.Fatalf("batch of %d: the seal of %d on message %d: %v", n, j, i, err)
				}
			}
		}
	}
}

// TestPayloadAndHeaderCannotTradeBytes: the same bytes, cut at another place, are another message.
func TestPayloadAndHeaderCannotTradeBytes(t *testing.T) {
	e := sealedBatch(t, 1)[0]
	moved := *e
	moved.RawHeader, moved.Payload = e.RawHeader[:len(e.RawHeader)-1], append([]byte("}"), e.Payload...)
	want(t, moved.Verify(seller.Public()), envelope.BadSeal)
}

// TestAnInnerNodeIsNoMessage: the hash of two leaves cannot be shown as if it were a leaf's.
func TestAnInnerNodeIsNoMessage(t *testing.T) {
	es := sealedBatch(t, 4)
	seal := *es[0].Seal
	seal.Path, seal.Leaves = seal.Path[1:], 2
	short := *es[0]
	short.Seal = &seal
	want(t, short.Verify(seller.Public()), envelope.BadSeal)
}

// TestEveryBitOfASealCounts flips each bit of signature and path.
func TestEveryBitOfASealCounts(t *testing.T) {
	e := sealedBatch(t, 3)[1]
	raw := e.AppendBinary(nil)
	begin := 4 + len(e.RawHeader)
	fixed := begin + 64
	for at := begin; at < len(raw)-len(e.Payload); at++ {
		if at >= fixed && at < fixed+4 { // index and leaves: see TestOneProofHasSeveralForms
			continue
		}
		changed := slices.Clone(raw)
		changed[at] ^= 1 << (at % 8)
		got, err := envelope.DecodeBinary(changed, 100)
		ok(t, err)
		want(t, got.Verify(seller.Public()), envelope.BadSeal)
	}
}

// TestOneProofHasSeveralForms writes down what is malleable: (index, leaves) that give the same walk. Nothing may be told apart by
// its seal.
func TestOneProofHasSeveralForms(t *testing.T) {
	e := sealedBatch(t, 3)[2] // promoted once, then on the right
	for _, place := range [][2]int{{2, 3}, {1, 2}, {4, 5}, {8, 9}, {128, 129}} {
		seal := *e.Seal
		seal.Index, seal.Leaves = place[0], place[1]
		same := *e
		same.Seal = &seal
		ok(t, same.Verify(seller.Public()))
		if !same.Same(e) {
			t.Error("another seal makes another message")
		}
	}
}

// TestSignatureHasOneForm: adding the group's order to S gives the same point, and must not pass.
func TestSignatureHasOneForm(t *testing.T) {
	e := sealedBatch(t, 1)[0]
	order := [32]byte{0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 31: 0x10}
	carry := 0
	for i, b := range order {
		carry += int(e.Seal.Sig[32+i]) + int(b)
		e.Seal.Sig[32+i] = byte(carry)
		carry >>= 8
	}
	want(t, e.Verify(seller.Public()), envelope.BadSeal)
}

// TestKeysThatProveNothing: under a small-order key anybody can make a signature that the textbook check accepts.
func TestKeysThatProveNothing(t *testing.T) {
	e := sealedBatch(t, 1)[0]
	identity := envelope.PublicKey{1}
	e.Seal.Sig = [64]byte{1} // R = identity, S = 0
	if !ed25519.Verify(identity[:], []byte("anything"), e.Seal.Sig[:]) {
		t.Fatal("the textbook check does not accept this forgery; the test tests nothing")
	}
	want(t, e.Verify(identity), envelope.BadSeal)
	want(t, e.Verify(envelope.PublicKey{}), envelope.BadSeal)
	for _, sign := range []byte{0, 0x80} {
		key := envelope.PublicKey{0: 1, 31: sign}
		_, err := envelope.ParsePublicKey(base64.StdEncoding.EncodeToString(key[:]))
		want(t, err, envelope.Malformed, "small order", "anybody")
	}
}

func TestUnsealed(t *testing.T) {
	want(t, message(t, request(), "").Verify(seller.Public()), envelope.BadSeal, "no seal", "order-agent")
}

func TestSealMadeByHand(t *testing.T) {
	for _, seal := range []envelope.Seal{
		{}, {Leaves: 4}, {Leaves: 1, Index: 1}, {Leaves: 2, Index: -1, Path: make([]envelope.Hash, 1)}, {Leaves: 257, Path: make([]envelope.Hash, 9)},
		{Leaves: 1, Path: make([]envelope.Hash, 1)}, {Leaves: 3, Index: 2, Path: make([]envelope.Hash, 2)},
	} {
		e := message(t, request(), "")
		e.Seal = &seal
		want(t, e.Verify(seller.Public()), envelope.Malformed, "leaves")
	}
}

func TestSignRefusesSillyNumbers(t *testing.T) {
	for _, n := range []int{0, envelope.MaxLeaves + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Sign takes %d messages", n)
				}
			}()
			envelope.Sign(seller, make([]*envelope.Envelope, n)...)
		}()
	}
}

// TestVerifierRemembersRootsNotMessages: a remembered root proves no tampered message, no other key and no other signature.
func TestVerifierRemembersRootsNotMessages(t *testing.T) {
	es := sealedBatch(t, 8)
	v := envelope.NewVerifier(2)
	ok(t, v.Verify(es[0], seller.Public()))
	ok(t, v.Verify(es[7], seller.Public()))
	tampered := *es[3]
	tampered.Payload = []byte(`{"n":4}`)
	want(t, v.Verify(&tampered, seller.Public()), envelope.BadSeal)
	want(t, v.Verify(es[3], another.Public()), envelope.BadSeal)
	seal := *es[3].Seal
	seal.Sig[0] ^= 1
	forged := *es[3]
	forged.Seal = &seal
	want(t, v.Verify(&forged, seller.Public()), envelope.BadSeal)
	want(t, v.Verify(&forged, seller.Public()), envelope.BadSeal) // a refusal is not remembered as a proof
}

func BenchmarkSign(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		es := sealedBatch(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				envelope.Sign(seller, es...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/message")
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{1, 16, 256} {
		es := sealedBatch(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				v := envelope.NewVerifier(8)
				for _, e := range es {
					ok(b, v.Verify(e, seller.Public()))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/message")
		})
	}
}
