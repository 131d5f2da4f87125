package qosmutex

import "fmt"

// A value that did not come from its constructor, most often the nil one that came with an
// error, is refused by each method with an error that says so.

func unmade(kind error, what, constructor string) error {
	return fmt.Errorf("%w: this %s is not from %s: look at the error that %s returned", kind, what, constructor, constructor)
}

func (t *Topic) made() error {
	if t == nil || t.p == nil {
		return unmade(ErrClosed, "Topic", "Open")
	}
	return nil
}

func (c *Client) made() error {
	if c == nil || c.p == nil {
		return unmade(ErrClosed, "Client", "Dial")
	}
	return nil
}

func (s *Server) made() error {
	if s == nil || s.p == nil {
		return unmade(ErrClosed, "Server", "NewServer")
	}
	return nil
}

func (r *Request) made() error {
	if r == nil || r.hold == nil {
		return unmade(ErrClosed, "Request", "Ask")
	}
	return nil
}

func (h *Hold) made() error {
	if h == nil || h.of == nil {
		return unmade(ErrLost, "Hold", "Lock")
	}
	return nil
}

// ended is the Done of what never began.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
