package connection

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"padme/pubsub/internal/failure"
)

// Samples and lock messages do not pass through the MQTT client, which has two goroutines,
// two copies and a table for each on its way: a stream takes publishes and acknowledgements
// out of what the broker sends, and a link writes them straight to the stream. The client
// keeps the session: CONNECT, subscriptions, pings and DISCONNECT.

// Types of MQTT packets (MQTT 3.1.1 §2.2.1).
const (
	typePublish    = 3
	typePuback     = 4
	typeSuback     = 9
	typeDisconnect = 14
)

// maxAcks is how many acknowledgements are written together while more is there to be read.
const maxAcks = 16

// maxKeptBuffer bounds the memory that a link keeps for writing, and what is copied to be
// written together with its header, in bytes.
const maxKeptBuffer = 4 << 10

// fixedHeader begins a packet from the broker.
type fixedHeader struct {
	kind, flags byte
	size        int // of this header
	length      int // of what follows
}

// takePublish hands a publish on. The payload belongs to who receives it.
func (s *stream) takePublish(h fixedHeader) error {
	body, err := s.body(h)
	if err != nil {
		return err
	}
	qos, begins := h.flags>>1&3, 2
	if len(body) >= 2 {
		begins += int(binary.BigEndian.Uint16(body))
	}
	payload := begins
	if qos > 0 {
		payload += 2 // the packet id
	}
	switch {
	case qos > 1:
		return fmt.Errorf("%w: a publish at QoS %d, which nobody asked for", errStream, qos)
	case len(body) < payload:
		return fmt.Errorf("%w: a publish of %d bytes, too few for its topic", errStream, len(body))
	}
	if qos == 1 && h.flags&1 != 0 {
		s.retained()
	}
	s.receive(string(body[2:begins]), body[payload:], h.flags&1 != 0)
	if qos == 1 {
		s.acks = append(s.acks, typePuback<<4, 2, body[begins], body[begins+1])
	}
	return nil
}

// takePuback tells of an acknowledgement.
func (s *stream) takePuback(h fixedHeader) error {
	body, err := s.body(h)
	if err != nil {
		return err
	}
	if len(body) != 2 {
		return fmt.Errorf("%w: an acknowledgement of %d bytes", errStream, len(body))
	}
	s.acked(binary.BigEndian.Uint16(body))
	return nil
}

// body reads what follows a header, whose length was looked at.
func (s *stream) body(h fixedHeader) ([]byte, error) {
	if _, err := s.r.Discard(h.size); err != nil {
		return nil, err
	}
	b := make([]byte, h.length)
	if _, err := io.ReadFull(s.r, b); err != nil {
		return nil, s.loss(err)
	}
	return b, nil
}

// acknowledge writes the acknowledgements of what was handed on, unless more is about to be.
func (s *stream) acknowledge() {
	if len(s.acks) > 0 && (s.r.Buffered() == 0 || len(s.acks) >= 4*maxAcks) {
		s.out.put(s.acks)
		s.acks = s.acks[:0]
	}
}

// acks are the publishes of a link which the broker has not acknowledged.
type acks struct {
	mu      sync.Mutex
	waiting map[uint16]*ack
	last    uint16
	over    bool
}

// ack is the broker's answer to one publish.
type ack struct {
	done chan struct{}
	err  error // read after done
}

// next makes one with a packet id that no other has, and none of the MQTT client, which
// counts from 1 (and reaches those here after more subscriptions than a link sees).
func (a *acks) next() (id uint16, k *ack) {
	const first = 1 << 15
	a.mu.Lock()
	defer a.mu.Unlock()
	k = &ack{done: make(chan struct{})}
	if a.over {
		k.end(failure.ErrOffline)
		return first, k
	}
	for a.last = max(a.last+1, first); a.waiting[a.last] != nil; a.last = max(a.last+1, first) {
	}
	a.waiting[a.last] = k
	return a.last, k
}

func (a *acks) came(id uint16) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k := a.waiting[id]; k != nil {
		delete(a.waiting, id)
		k.end(nil)
	}
}

// end ends all when the link is lost.
func (a *acks) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for id, k := range a.waiting {
		delete(a.waiting, id)
		k.end(failure.ErrOffline)
	}
}

func (k *ack) end(err error) {
	k.err = err
	close(k.done)
}

func (k *ack) Done() <-chan struct{} { return k.done }

func (k *ack) Error() error {
	<-k.done
	return k.err
}
