// Package link carries envelopes over any byte stream, many calls at once, both ways.
//
//	dialer                                    acceptor
//	  hello  ───────────────────────────────▶           id, role, key, nonce, limits
//	         ◀───────────────────────────────  hello
//	  proof  ───────────────────────────────▶           signature over both hellos
//	         ◀───────────────────────────────  proof    or goaway: Config.Authorize refused
//
//	asker (either side)                       the side that is asked
//	  message n, message n …  ──────────────▶           one envelope, in frames; its handler starts when it is whole
//	         ◀──────────────  part n, part n …          any number of envelopes, in frames
//	         ◀──────────────  end n                     or flag END on the last part
//	  credit n, cancel n      ──────────────▶
//	         ◀──────────────  credit n
//
//	either side, any time: ping, goaway
//
// # Frames
//
//	u32 length of what follows | u8 type | u8 flags | u32 call | body          length 6 … 65 542
//
//	type     call  body
//	hello    0     JSON
//	proof    0     JSON
//	message  n     FIRST: u8 hop length | hop | u32 envelope length | bytes; else bytes
//	part     n     FIRST: u32 envelope length | bytes; else bytes
//	end      n     empty, or an error object
//	cancel   n     empty, or an error object
//	ping     0     8 bytes; the answer repeats them with ACK
//	credit   n     u32 bytes
//	goaway   0     an error object
//
// DESIGN.md of package envelope is the full rule. A number is odd when the dialer asks, even when the acceptor does, and is given
// out when the first frame is written, so that numbers grow on the wire whatever the priorities.
//
// # Who runs
//
// A link is three goroutines: Run's own keeps time (pings, deadlines, stalls) with one timer for all; the reader takes frames
// apart and never waits for a handler or a call; the writer gathers what waits into one Write. A handler adds one goroutine for
// each inbound call. One mutex guards the rest, and is never held over a read or a write.
//
// What is asked before Run waits for it, as for anything else that is not yet written.
//
// # What bounds memory
//
// Outgoing, a call holds one envelope, by reference, and Send waits for the one before. Incoming, a call holds at most one
// unfinished envelope (MaxMessage) and two windows of finished ones; all calls together MaxBuffered. Memory for an
// announced envelope grows with the bytes that arrive. Control frames waiting for a reader that does not read are limited to
// 1 MiB; then the link is closed.
//
// # Stalls
//
// A Write that takes longer than StallTimeout, or a ping not answered for as long, closes the link. A single call whose reader
// gives no credit for StallTimeout is ended alone, and both sides are told why: closing the link would let one caller that stopped
// reading cut off an agent for everybody else.
//
// # Errors
//
// All are *envelope.Error, with step link where the link itself is the cause:
//
//	Unreachable  the message was certainly not handed over
//	Expired      the deadline passed before it was handed over
//	Timeout      it was handed over and may have run; the link broke, the deadline passed or the caller gave up
//	TooLarge     over the peer's or our own message limit
//	Overloaded   too many calls or bytes wait; certainly not run
//	Malformed    the peer broke the protocol, or what it sent is no envelope
//	Internal     a handler panicked, or failed with an error without a code
package link
