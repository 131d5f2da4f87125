package gateway

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"padme/qosmutex/jsonlock"
)

const (
	// perMessage is what a message takes beside its payload.
	perMessage = 128
	// readAtOnce bounds the messages that are read before anything else is looked at, and
	// aheadAtOnce those of them that overtake others.
	readAtOnce, aheadAtOnce = 64, 48
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
}

// mayOvertake reports whether a message looks like a release or a renewal. Others wait for the
// one, and a hold is lost without the other, so neither waits until those that stand in line
// have said once more that they do. Without an id, of all of a session, it keeps its place.
func (m *message) mayOvertake() bool {
	says := func(word string) bool { return bytes.Contains(m.payload, []byte(word)) }
	return says(`"id"`) && (says(`"release"`) || says(`"renew"`))
}

func (m *message) size() int64 { return int64(len(m.payload) + len(m.client) + perMessage) }

// inbox holds messages of clients that were not read yet.
type inbox struct {
	unread *atomic.Int64 // of all inboxes, in bytes
	most   int64         // of them
	news   chan struct{} // has a token when there are messages

	mu       sync.Mutex
	ahead    []message // read first
	messages []message
}

func newInbox(unread *atomic.Int64, most int) *inbox {
	return &inbox{unread: unread, most: int64(most), news: make(chan struct{}, 1)}
}

// put reports false if there is no room.
func (b *inbox) put(m message) bool {
	if size := m.size(); b.unread.Add(size) > b.most {
		b.unread.Add(-size)
		return false
	}
	b.mu.Lock()
	if m.ahead {
		b.ahead = append(b.ahead, m)
	} else {
		b.messages = append(b.messages, m)
	}
	b.mu.Unlock()
	b.signal()
	return true
}

func (b *inbox) signal() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// take returns the oldest messages, some of them.
func (b *inbox) take() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := slices.Concat(cut(&b.ahead, aheadAtOnce), cut(&b.messages, readAtOnce-aheadAtOnce))
	taken = append(taken, cut(&b.messages, readAtOnce-len(taken))...)
	if len(b.ahead) > 0 || len(b.messages) > 0 {
		b.signal()
	}
	for i := range taken {
		b.unread.Add(-taken[i].size())
	}
	return taken
}

// cut takes the first few messages out of a line.
func cut(line *[]message, most int) []message {
	n := min(len(*line), most)
	first := (*line)[:n:n]
	if *line = (*line)[n:]; len(*line) == 0 {
		*line = nil
	}
	return first
}

// clear drops all messages.
func (b *inbox) clear() {
	for len(b.take()) > 0 {
	}
}
