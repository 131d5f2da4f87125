package protocol_test

import (
	"errors"
	"fmt"

	"padme/qosmutex/protocol"
)

func ExampleDecoder() {
	sent := protocol.Message{
		Kind: protocol.KindRequest, From: protocol.Node{ID: "D", Incarnation: 1}, To: protocol.Node{ID: "B", Incarnation: 1},
		ID: protocol.RequestID{Node: protocol.Node{ID: "D", Incarnation: 1}, Clock: 7}, Priority: 2, Resource: "crane",
	}
	wire := protocol.AppendMessage(nil, &sent)

	var d protocol.Decoder
	var m protocol.Message // reused for every message that comes
	if err := d.Decode(wire, &m); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%v from %v, priority %d, %s\n", m.Kind, m.From, m.Priority, m.Resource)

	err := d.Decode(wire[:len(wire)-1], &m)
	fmt.Println(errors.Is(err, protocol.ErrMalformed), err)
	// Output:
	// Request from D, priority 2, crane
	// true protocol: malformed message: hold: cut short
}
