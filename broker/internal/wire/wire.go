// Package wire looks at MQTT packets on their way from a client to the broker library,
// before that library decodes them, and refuses what would make it spend more than the
// bytes are worth: packets with many properties, many filters or deep topics. It knows
// lengths and counts only; whether a packet makes sense otherwise is for the library.
package wire

import (
	"errors"
	"fmt"
)

// Limits bounds what one packet may hold.
type Limits struct {
	Properties int // of MQTT 5, those of a will counted apart
	Filters    int // of a SUBSCRIBE or UNSUBSCRIBE
	Levels     int // of a topic name or filter
	Bytes      int // of a packet, if it is to be shorter than what the library takes; else 0
}

// ErrMalformed says: these bytes are no MQTT packet that a client may send.
var ErrMalformed = errors.New("malformed packet")

// LimitError says which limit a packet went beyond.
type LimitError struct {
	What  Kind
	Limit int
}

// Kind is what a limit counts.
type Kind string

// What is counted.
const (
	Properties Kind = "properties"
	Filters    Kind = "filters"
	Levels     Kind = "levels"
	Bytes      Kind = "bytes"
)

func (e *LimitError) Error() string {
	return fmt.Sprintf("a packet with more than %d %s", e.Limit, e.What)
}

// The packets that a client may send.
const (
	publish     = 3
	puback      = 4
	pubrec      = 5
	pubrel      = 6
	pubcomp     = 7
	subscribe   = 8
	unsubscribe = 10
	pingreq     = 12
	disconnect  = 14
	auth        = 15
)

// width is the shape of a property's value.
type width byte

const (
	none width = iota
	one
	two
	four
	varint
	text // two bytes of length, and as many as they say
	pair // two texts
)

// widths are the properties of MQTT 5 (2.2.2.2) by identifier.
var widths = [43]width{
	1: one, 2: four, 3: text, 8: text, 9: text, 11: varint, 17: four, 18: text, 19: two,
	21: text, 22: text, 23: one, 24: four, 25: one, 26: text, 28: text, 31: text, 33: two,
	34: two, 35: two, 36: one, 37: one, 38: pair, 39: four, 40: one, 41: one, 42: one,
}

func widthOf(id byte) width {
	if int(id) >= len(widths) {
		return none
	}
	return widths[id]
}
