package realrun

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// link is a connection to the broker that keeps back what goes to the inboxes of other
// participants, as long as it takes in the scenario. The order of messages to one participant
// stays; those to another one, who is nearer, may come before them. All else goes at once.
type link struct {
	net.Conn
	way *way

	mu      sync.Mutex
	begun   []byte // a packet that is not whole yet
	waiting []parcel
	last    map[string]time.Time // when the last message to a participant goes
	changed chan struct{}
	ended   chan struct{}
	end     sync.Once
	writing sync.Mutex // a packet at a time
}

// way says how long messages take. It serves all connections of a participant.
type way struct {
	inboxes []byte                     // what topics of inboxes begin with
	delays  map[string][]time.Duration // by the level of the receiver: what to draw from

	flat time.Duration // of messages of measure, to those for whom there are delays

	mu    sync.Mutex
	known *rand.Rand
}

// parcel is a packet and when it goes.
type parcel struct {
	due    time.Time
	packet []byte
}

// delay draws how long a packet is kept back, and tells behind which others it must stay: ""
// if behind none.
func (w *way) delay(packet []byte) (d time.Duration, behind string) {
	level := receiver(packet, w.inboxes)
	all := w.delays[level]
	if len(all) == 0 {
		return 0, level
	}
	if bytes.Contains(packet, []byte(pingChannel)) {
		return w.flat, pingChannel + level
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return all[w.known.IntN(len(all))], level
}

func newLink(c net.Conn, w *way) *link {
	l := &link{Conn: c, way: w, last: map[string]time.Time{}, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.carry()
	return l
}

// Write takes packets to pieces.
func (l *link) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun = append(l.begun, b...)
	for {
		n := packetLength(l.begun)
		if n == 0 {
			return len(b), nil
		}
		packet := bytes.Clone(l.begun[:n])
		l.begun = append(l.begun[:0], l.begun[n:]...)
		if err := l.send(packet); err != nil {
			return 0, err
		}
	}
}

// send writes a packet, or has it wait for its time.
func (l *link) send(packet []byte) error {
	delay, behind := l.way.delay(packet)
	due := time.Now().Add(delay)
	if last := l.last[behind]; last.After(due) {
		due = last
	} else if delay == 0 {
		return l.write(packet)
	}
	l.last[behind] = due
	at, _ := slices.BinarySearchFunc(l.waiting, due, func(p parcel, due time.Time) int {
		if p.due.After(due) {
			return 1
		}
		return -1 // behind what goes at the same time
	})
	l.waiting = slices.Insert(l.waiting, at, parcel{due, packet})
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return nil
}

func (l *link) write(packet []byte) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.Conn.Write(packet)
	return err
}

// carry writes what waits when its time has come, until the connection is closed.
func (l *link) carry() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		packet, wait := l.next()
		if packet != nil {
			if l.write(packet) != nil {
				_ = l.Close()
				return
			}
			continue
		}
		if wait <= late { // in small steps: another one may come that goes before
			rest(min(wait, late/10))
			continue
		}
		timer.Reset(wait - late)
		select {
		case <-timer.C:
		case <-l.changed:
		case <-l.ended:
			return
		}
	}
}

// next takes the packet whose time has come, or tells how long there is none.
func (l *link) next() (packet []byte, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil, time.Hour
	}
	if wait = time.Until(l.waiting[0].due); wait > 0 {
		return nil, wait
	}
	packet = l.waiting[0].packet
	l.waiting = slices.Delete(l.waiting, 0, 1)
	return packet, 0
}

// Close ends the connection, with what waits.
func (l *link) Close() error {
	l.end.Do(func() { close(l.ended) })
	return l.Conn.Close()
}

// packetLength is that of the first packet of MQTT in b; 0: it is not whole.
func packetLength(b []byte) int {
	rest, n := headerOf(b)
	if n == 0 || len(b) < n+rest {
		return 0
	}
	return n + rest
}

// headerOf reads the fixed header of a packet: how long the rest is, and the header; 0: it is
// not whole.
func headerOf(b []byte) (rest, n int) {
	if len(b) < 2 {
		return 0, 0
	}
	length, size := binary.Uvarint(b[1:min(len(b), 5)])
	if size <= 0 {
		return 0, 0
	}
	return int(length), 1 + size
}

// receiver is the level of the participant whose inbox a packet goes to; "": it does not.
func receiver(packet, inboxes []byte) string {
	const publish = 3
	_, n := headerOf(packet)
	if packet[0]>>4 != publish || len(packet) < n+2 {
		return ""
	}
	topic := packet[n+2:]
	topic = topic[:min(len(topic), int(binary.BigEndian.Uint16(packet[n:])))]
	level, ok := bytes.CutPrefix(topic, inboxes)
	if !ok {
		return ""
	}
	level, _, _ = bytes.Cut(level, []byte("/"))
	return string(level)
}
