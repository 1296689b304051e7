package link

// priorities is the number of priorities: 1, most urgent, to 9.
const priorities = 9

// queue holds the calls that have something to write: by priority, in turn among equals. A call is in it at most once.
type queue struct {
	rings [priorities]*call // each the head of a ring, nil: empty
}

// push adds c as the last of its priority.
func (q *queue) push(c *call) {
	if c.next != nil {
		return
	}
	head := &q.rings[c.rank-1]
	if *head == nil {
		c.next, c.prev = c, c
		*head = c
		return
	}
	c.next, c.prev = *head, (*head).prev
	c.prev.next, c.next.prev = c, c
}

// remove takes c out, if it is in.
func (q *queue) remove(c *call) {
	if c.next == nil {
		return
	}
	head := &q.rings[c.rank-1]
	if *head == c {
		*head = c.next
	}
	if *head == c {
		*head = nil
	}
	c.prev.next, c.next.prev = c.next, c.prev
	c.next, c.prev = nil, nil
}

// pop takes out the next call to be written, nil if none waits.
func (q *queue) pop() *call {
	for _, c := range q.rings {
		if c != nil {
			q.remove(c)
			return c
		}
	}
	return nil
}

// each visits all calls; f must not change the queue.
func (q *queue) each(f func(*call)) {
	for _, head := range q.rings {
		for c := head; c != nil; {
			f(c)
			if c = c.next; c == head {
				break
			}
		}
	}
}
