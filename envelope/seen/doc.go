// Package seen remembers which messages were accepted, so that none is accepted twice.
//
// A message is admitted in a window around its timestamp (CheckClock), and its id is remembered until that window is over:
//
//	timestamp-120 s                timestamp                     timestamp+min(ttl, 300 s)+120 s
//	      │◀── the sender's clock is ahead ──▶│◀── on the way, and the sender's clock is behind ──▶│
//
// The memory is made of generations of 15 s by the messages' timestamps, each a list of segments; a segment is a Bloom
// filter in front of an exact set. The filter only says "maybe": the set decides, so no new message is refused by mistake.
//
//	            floor                                    now
//	  dropped     │ gen │ gen │ gen │   …   │ gen │ gen │ gen │ … up to now+120 s
//	◀── refused ──┘
//
// A generation is dropped when nothing in it can be admitted any more, and earlier when more than Config.Capacity ids are
// held. First the floor rises above it, then its ids go: a message below the floor is refused as Expired, and so a forgotten id
// is never a second acceptance. Generations within Config.MinWindow of now are kept whatever their number, up to
// Config.HardLimit ids, where the answer is Overloaded.
//
// # Errors
//
// Duplicate, Expired, ClockSkew, Overloaded; all at step seen or clock.
package seen
