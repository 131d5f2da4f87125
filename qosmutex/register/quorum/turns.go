package quorum

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"padme/qosmutex/internal/limited"
	"padme/qosmutex/register/caspaxos"
)

// turns are the messages that wait for a voter, in a line for each sender. The lines take
// turns, so that a sender who floods waits for itself.
type turns struct {
	mu     sync.Mutex
	lines  map[string]*line
	order  []*line  // the same, by when they began
	bytes  int      // of all lines
	voters []string // whose lines are longer, and take what they like: they answer for many
	closed bool
	rate   int // bytes a second of each sender; 0: pace

	reached *limited.Log
	untold  []excess
	floods  atomic.Uint64 // messages that were dropped as their sender was beyond a limit
	late    atomic.Uint64 // and others that had waited for too long
}

// line is what waits of one sender.
type line struct {
	from    string
	waiting []arrival
	next    *caspaxos.Message // the first one that waits, once it was its turn
	bytes   int
	paid    caspaxos.Time // when it will have paid for what it had done
	waits   reason        // why its first message waits, as far as is known
	own     bool          // waits for its own requests, not for those of others
}

// arrival is a message that waits.
type arrival struct {
	message []byte
	at      caspaxos.Time
}

const (
	share        = 8                   // messages of a sender in one turn
	shareOfVoter = 1 << 8              // the same of a voter
	maxLine      = 1 << 20             // bytes that wait of one sender
	maxVoterLine = 1 << 22             // the same of a voter
	maxWaiting   = 1 << 25             // of all senders
	maxLines     = 1 << 12             // and those of voters
	overhead     = 256                 // bytes of a message that waits, in addition to its own
	late         = caspaxos.Time(10e9) // a message of a client that has waited for longer has been repeated

	// pace is how many bytes a second a sender may have voters send each other, and it: 2,048
	// small requests, which renew the records of 768 locks even if none share a request, or of
	// a thousand with 300 bytes each that mostly do. A sender with more asks another voter.
	pace    = 6 << 20
	ahead   = caspaxos.Time(250e6) // by how much a sender may be ahead of that
	idle    = caspaxos.Time(2e9)   // for how long at most it pays for what was dropped
	least   = 3 << 10              // bytes that a message costs, as that many messages follow
	inquiry = 8 << 10              // bytes that a report costs
)

// add has a message wait. It reports false if it is dropped, as more of its sender's wait
// than may.
func (t *turns) add(from string, message []byte, now caspaxos.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return true // the voter has ended
	}
	l := t.line(from, now)
	if l == nil {
		t.beyond(limitLines, from)
		return false
	}
	cost := len(message) + overhead
	voter := slices.Contains(t.voters, from)
	limit := noLimit
	switch {
	case voter && l.bytes+cost > maxVoterLine, !voter && l.bytes+cost > maxLine:
		limit = limitLine
	case !voter && !t.makeRoom(l, cost):
		limit = limitWaiting
	}
	if limit != noLimit {
		t.beyond(limit, from)
		// It costs what it would have, or a flood would be as dear as the pace allows.
		if !voter && l.paid < now+idle {
			l.charge(least, now, t.rate)
		}
		return false
	}
	l.waiting = append(l.waiting, arrival{slices.Clone(message), now})
	l.bytes += cost
	t.bytes += cost
	return true
}

// line returns the line of a sender, or nil if there are too many.
func (t *turns) line(from string, now caspaxos.Time) *line {
	l := t.lines[from]
	if l != nil {
		return l
	}
	if len(t.lines) >= maxLines {
		t.forget(now)
	}
	if len(t.lines) >= maxLines && !slices.Contains(t.voters, from) {
		return nil
	}
	if t.lines == nil {
		t.lines = map[string]*line{}
	}
	l = &line{from: from}
	t.lines[from], t.order = l, append(t.order, l)
	return l
}

// forget ends the lines of those who have nothing to wait for.
func (t *turns) forget(now caspaxos.Time) {
	t.order = slices.DeleteFunc(t.order, func(l *line) bool {
		gone := len(l.waiting) == 0 && l.paid <= now
		if gone {
			delete(t.lines, l.from)
		}
		return gone
	})
}

// makeRoom drops the last messages of the longest line, if it is not l that would be.
func (t *turns) makeRoom(l *line, cost int) bool {
	for t.bytes+cost > maxWaiting {
		longest := l
		for _, o := range t.order {
			if o.bytes > longest.bytes && len(o.waiting) > 1 && !slices.Contains(t.voters, o.from) {
				longest = o
			}
		}
		if longest.bytes <= l.bytes+cost {
			return false
		}
		last := len(longest.waiting) - 1
		t.left(longest, longest.waiting[last].message)
		longest.waiting[last] = arrival{} // or its bytes stayed
		longest.waiting = longest.waiting[:last]
		t.beyond(limitWaiting, longest.from)
	}
	return true
}

// left notes that a message waits no more.
func (t *turns) left(l *line, message []byte) {
	l.bytes -= len(message) + overhead
	t.bytes -= len(message) + overhead
}

// pay charges a sender for what is done at once. It reports false if its turn has not come.
func (t *turns) pay(from string, bytes int, now caspaxos.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.line(from, now)
	if l == nil {
		t.beyond(limitLines, from)
		return false
	}
	if slices.Contains(t.voters, from) {
		return true
	}
	if l.paid > now+ahead {
		t.beyond(limitRate, from)
		return false
	}
	l.charge(bytes, now, t.rate)
	return true
}

func (l *line) charge(bytes int, now caspaxos.Time, rate int) {
	l.paid = max(l.paid, now) + caspaxos.Time(bytes)*1e9/caspaxos.Time(cmp.Or(rate, pace))
}

// know says who the voters are.
func (t *turns) know(voters []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Equal(t.voters, voters) {
		t.voters = slices.Clone(voters)
	}
}

// take has each sender's next messages handled. It reports whether there are more whose turn
// has come, and when that of one comes that is ahead of its pace; 0: there is none.
func (t *turns) take(m *caspaxos.Machine, now caspaxos.Time, handle func(*caspaxos.Message)) (more bool, at caspaxos.Time) {
	t.mu.Lock()
	t.forget(now)
	lines := slices.Clone(t.order)
	t.mu.Unlock()
	handled, blocked := 0, false
	for _, l := range lines {
		for n := 0; ; n++ {
			msg, why, when := t.leave(l, m, now, n)
			if msg == nil {
				more, blocked = more || why == over, blocked || why == busy
				if why == early && (at == 0 || when < at) {
					at = when
				}
				break
			}
			handle(msg)
			handled++
		}
	}
	return more || blocked && handled > 0, at // what was handled may have ended what a line waits for
}

// reason is why nothing leaves a line.
type reason uint8

const (
	empty reason = iota
	early        // its sender has had much done lately
	busy         // as many requests are going on as may be
	over         // its turn is over
)

// leave takes the first message out of a line of which n have left in this turn. It returns nil
// if none may leave, and if that is for being early, when one may.
func (t *turns) leave(l *line, m *caspaxos.Machine, now caspaxos.Time, n int) (*caspaxos.Message, reason, caspaxos.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	voter := slices.Contains(t.voters, l.from)
	for len(l.waiting) > 0 {
		first := l.waiting[0]
		switch {
		case !voter && now > first.at+late:
			t.drop(l)
			continue
		case !voter && l.paid > now+ahead:
			l.waits = early
			return nil, early, l.paid - ahead
		case !voter && n >= share, n >= shareOfVoter:
			return nil, over, 0
		case l.next == nil:
			l.next, _ = caspaxos.Decode(first.message)
		}
		msg, cost := l.next, len(first.message)
		if msg != nil && msg.Kind == caspaxos.KindRequest {
			if now-first.at > msg.Within {
				t.drop(l)
				continue
			}
			if room, own := m.Room(l.from); !room {
				l.waits, l.own = busy, own
				return nil, busy, 0
			}
			cost += m.Cost(msg) * len(t.voters)
		}
		t.shift(l)
		if !voter { // one that is replaced would owe for what it did as a voter
			l.charge(max(cost, least), now, t.rate)
		}
		if msg != nil {
			msg.From = l.from
			return msg, 0, 0
		}
	}
	return nil, empty, 0
}

// shift has the first message of a line wait no more.
func (t *turns) shift(l *line) {
	t.left(l, l.waiting[0].message)
	l.waiting[0] = arrival{} // or its bytes stayed
	l.waiting, l.next, l.waits = l.waiting[1:], nil, empty
}

// drop forgets the first message of a line, which nobody waits for any more.
func (t *turns) drop(l *line) {
	switch {
	case l.waits == early:
		t.beyond(limitRate, l.from)
	case l.waits == busy && l.own:
		t.beyond(limitRequests, l.from)
	default: // the voter itself is slow, or others have all the room
		t.late.Add(1)
	}
	was := l.waits
	t.shift(l)
	l.waits = was // of those behind it, too
}

// close drops what waits: the voter has ended.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed, t.lines, t.order, t.bytes = true, nil, nil, 0
}
