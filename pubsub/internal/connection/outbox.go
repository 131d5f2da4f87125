package connection

import (
	"time"
)

const (
	// MaxQueued and outboxBytes bound what waits for the network in a Queue.
	MaxQueued   = 4096
	outboxBytes = 16 << 20

	// sideTopics bounds the retained topics that wait in a Latest, sideEvents the other
	// messages.
	sideTopics = 16384
	sideEvents = 1024
)

// A Packet is one thing for a lane to do: publish, or run op.
type Packet struct {
	Topic   string
	Payload []byte
	Retain  bool
	QoS     byte
	Current func() bool // nil, or whether it is still to be published
	Spare   bool        // of a Queue it has room of its own, and every second turn

	Joins  bool    // its payload may follow those of others on its topic, in one message
	Bundle *Bundle // of a sample that may share its message; nil for everything else
	Mixed  string  // topic once samples of other instances have joined; "" if they must not

	op      func(*Link, *flight) // instead of publishing; may wait for receipts
	place   uint64               // in the order of a Queue, from 1; 0 of a spare one
	after   uint64               // how many spare packets were ever put before
	gathers bool                 // more may join
	shared  bool                 // Payload is of several
}

// Outbox is what waits for the network on one lane.
type Outbox interface {
	// Put never blocks. It keeps p.Payload.
	Put(p Packet) error
	// Take removes the next packet. While the broker is busy with others, which are
	// not acknowledged, it may leave packets to gather until due.
	Take(busy bool) (p Packet, due time.Time, ok bool)
	// ready has a token when there may be something to take.
	ready() <-chan struct{}
	// Open and lost follow the connection; unacked was published on a connection
	// that is gone. They return how many packets were dropped.
	Open()
	lost(unacked []Packet) (dropped int)
}
