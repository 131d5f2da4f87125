package qosmutex

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// appendEvent appends e as a line of JSON. Lock events are the most frequent of what is
// published, three for each entry, and take a fifth of the time of json.Marshal here.
func appendEvent(b []byte, e *Event) ([]byte, error) {
	if len(e.Resources) > 0 || e.Open { // seldom
		line, err := json.Marshal(e)
		return append(append(b, line...), '\n'), err
	}
	b = appendText(b, `{"event":`, e.Event)
	b = appendText(b, `,"topic":`, e.Topic)
	b = appendKnown(b, `,"resource":`, e.Resource)
	b = appendText(b, `,"participant":`, e.Participant)
	b = appendKnown(b, `,"via":`, e.Via)
	b = appendKnown(b, `,"request":`, e.Request)
	b = strconv.AppendInt(append(b, `,"priority":`...), e.Priority, 10)
	b = appendKnown(b, `,"fence":`, e.Fence)
	b = append(e.At.AppendFormat(append(b, `,"at":"`...), time.RFC3339Nano), '"')
	b = appendSeconds(b, `,"waited":`, e.Waited)
	b = appendSeconds(b, `,"held":`, e.Held)
	b = appendKnown(b, `,"models":`, e.Models)
	b = appendKnown(b, `,"reason":`, e.Reason)
	b = appendKnown(b, `,"how":`, e.How)
	if e.Clock != 0 {
		b = strconv.AppendUint(append(b, `,"clock":`...), e.Clock, 10)
	}
	return append(b, '}', '\n'), nil
}

func appendText(b []byte, key, s string) []byte {
	b = append(b, key...)
	if strings.ContainsFunc(s, special) {
		text, _ := json.Marshal(s) // of a string it does not fail
		return append(b, text...)
	}
	return append(append(append(b, '"'), s...), '"')
}

// special reports whether JSON or HTML may want a character to be escaped.
func special(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }

// appendKnown is appendText for a field that is left out when it is empty.
func appendKnown(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	return appendText(b, key, s)
}

func appendSeconds(b []byte, key string, s float64) []byte {
	if s == 0 {
		return b
	}
	return strconv.AppendFloat(append(b, key...), s, 'f', -1, 64)
}
