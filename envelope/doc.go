// Package envelope is what is said between agents and nodes: a header, a payload and the seal that proves who said them.
//
//	bytes ──Decode / DecodeBinary──▶ Envelope{Header, RawHeader, Payload, Seal}
//	                                     │ Verify(key)           the seal proves the source
//	                                     ▼
//	                                 accepted, and passed on with the very bytes that were signed
//
//	Header ──New──▶ Envelope ──Sign(key, batch…)──▶ Envelope with a Seal ──AppendDocument / AppendBinary──▶ bytes
//
// Beside it stand the things that travel in payloads or are agreed between nodes: Descriptor (what an agent declares),
// Record (what a home node says of an agent), Ticket (leave to call an agent direct), Permissions (who may call what).
//
// The package holds values only: no clock, no goroutine, no network. Files appear in keyfile.go alone.
//
// # Errors
//
// Every failure is an *Error with a Code from the closed list in errors.go; match it with errors.Is(err, envelope.NoRoute).
// A function that returns an error returns nothing else that may be used.
package envelope
