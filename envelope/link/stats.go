package link

// Stats counts what has happened on a link since it was made.
type Stats struct {
	Asked, Served     uint64 // calls that we asked, and that we let the peer ask
	Open, OpenInbound int    // of those, the ones that run now
	Refused           uint64 // inbound calls that were over a limit
	BytesIn           uint64 // of messages and parts
	BytesOut          uint64 // of everything
	Writes            uint64 // calls of conn.Write
	Buffered          int    // bytes announced and not yet taken
	Dropped           uint64 // frames for calls that had ended or were refused
	Skipped           uint64 // frames of unknown type
	LateErrors        uint64 // errors of handlers after SendLast
}

// Stats is a snapshot of the counters.
func (l *Link) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Open, s.OpenInbound, s.Buffered = l.asked, l.served, l.buffered
	return s
}
