package gateway

import (
	"bytes"
	"sync"
	"time"

	"padme/qosmutex/jsonlock"
)

const (
	// perMessage is what a message takes beside its payload.
	perMessage = 128
	// readAtOnce bounds the messages that are read before anything else is looked at, and
	// aheadAtOnce those of them that overtake others.
	readAtOnce, aheadAtOnce = 16, 12
)

// message is one of a client as it came.
type message struct {
	client   string
	payload  []byte
	decoded  *jsonlock.Request // in place of a payload
	tooLarge int               // bytes, in place of a payload
	retained bool
	at       time.Time
	ahead    bool // it may overtake
	again    bool // it was taken, and is put back
}

// mayOvertake reports whether a message looks like a release or a renewal. Others wait for the
// one, and a hold is lost without the other, so neither waits until those that stand in line
// have said once more that they do. Without an id, of all of a session, it keeps its place.
func (m *message) mayOvertake() bool {
	says := func(word string) bool { return bytes.Contains(m.payload, []byte(word)) }
	return says(`"id"`) && (says(`"release"`) || says(`"renew"`))
}

func (m *message) size() int { return len(m.payload) + len(m.client) + perMessage }

// unread counts what waits in all inboxes.
type unread struct {
	most, each int // bytes, and messages of one client

	mu    sync.Mutex
	bytes int
	of    map[whose]int
}

// whose are messages of a client that are bounded together. Releases and renewals are bounded apart
// from what may be repeated with less harm.
type whose struct {
	client string
	ahead  bool
}

func newUnread(l *Limits) unread {
	return unread{most: l.Unread, each: max(l.ClientRate, l.ClientRequests), of: map[whose]int{}}
}

// add counts a message, unless a limit forbids that.
func (u *unread) add(m *message) (limit int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	of := whose{m.client, m.ahead}
	switch {
	case u.of[of] >= u.each && m.decoded == nil && !m.again:
		return limitClientRate
	case u.bytes+m.size() > u.most:
		return limitUnread
	}
	u.bytes += m.size()
	if m.decoded == nil { // an end of a session, which many topics hear, has a rate of its own
		u.of[of]++
	}
	return noLimit
}

// remove undoes an add.
func (u *unread) remove(m *message) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes -= m.size()
	if m.decoded != nil {
		return
	}
	of := whose{m.client, m.ahead}
	if u.of[of]--; u.of[of] == 0 {
		delete(u.of, of)
	}
}

// inbox holds messages of clients that were not read yet.
type inbox struct {
	unread *unread       // of all inboxes
	news   chan struct{} // has a token when there are messages

	mu       sync.Mutex
	ahead    fair[message] // read first
	messages fair[message]
}

func newInbox(u *unread) *inbox { return &inbox{unread: u, news: make(chan struct{}, 1)} }

// put returns the limit that a message is beyond, or noLimit if it is in.
func (b *inbox) put(m message) (limit int) {
	if limit = b.unread.add(&m); limit != noLimit {
		return limit
	}
	b.mu.Lock()
	if m.ahead {
		b.ahead.put(m.client, m)
	} else {
		b.messages.put(m.client, m)
	}
	b.mu.Unlock()
	b.signal()
	return noLimit
}

func (b *inbox) signal() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// take returns the next messages, some of them.
func (b *inbox) take() (taken []message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := func(q *fair[message], most int) {
		for len(taken) < most {
			m, ok := q.take()
			if !ok {
				return
			}
			b.unread.remove(&m)
			taken = append(taken, m)
		}
	}
	from(&b.ahead, aheadAtOnce)
	from(&b.messages, readAtOnce)
	from(&b.ahead, readAtOnce)
	if b.ahead.size > 0 || b.messages.size > 0 {
		b.signal()
	}
	return taken
}

// clear drops all messages.
func (b *inbox) clear() {
	for len(b.take()) > 0 {
	}
}
