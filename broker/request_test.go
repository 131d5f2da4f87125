package broker

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
)

// The head of a request is bounded in lines and bytes before anything is made of it.
func TestHeadsOfRequestsAreBounded(t *testing.T) {
	const first = "GET / HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct {
		head string
		want error
	}{
		"as many lines as may be": {first + strings.Repeat("a: b\r\n", maxHeadLines-3) + "\r\n", nil},
		"one more":                {first + strings.Repeat("a: b\r\n", maxHeadLines-2) + "\r\n", errOversized},
		"one more, and no end":    {first + strings.Repeat("a:\n", maxHeadLines-1), errOversized},
		"empty lines":             {strings.Repeat("\n", 2*maxHeadLines), errNotMQTT},
		"as long as may be":       {first + "a: " + strings.Repeat("b", leastHead-len(first)-7) + "\r\n\r\n", nil},
		"a byte more":             {first + "a: " + strings.Repeat("b", leastHead-len(first)-6) + "\r\n\r\n", errOversized},
		"a line without an end":   {first + "a: " + strings.Repeat("b", 2*leastHead), errOversized},
		"lines end as they like":  {"GET / HTTP/1.1\nHost: x\n\n", nil},
		"half a head":             {first, io.EOF},
		"something else":          {"\x10\x0c\x00\x04MQTT\n\n", errNotMQTT},
	} {
		r, err := readRequest(bufio.NewReaderSize(strings.NewReader(c.head), 64), leastHead)
		if !errors.Is(err, c.want) || err == nil && r.Host != "x" {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
