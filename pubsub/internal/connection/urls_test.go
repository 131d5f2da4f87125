package connection

import (
	"errors"
	"strings"
	"testing"

	"padme/pubsub/internal/failure"
)

// A URL at which there can be no broker is refused before one is looked for, with what is
// wrong with it.
func TestURLsThatCannotBe(t *testing.T) {
	for raw, want := range map[string]string{
		"mqtt://127.0.0.1:99999":    "port 99999 is not between 1 and 65535",
		"mqtt://127.0.0.1:65536":    "port 65536 is not",
		"ws://127.0.0.1:0":          "port 0 is not",
		"mqtt://h:1883,":            `part 2 of "mqtt://h:1883," is empty`,
		"mqtt://h:1883, ,mqtt://i:": `part 2 of "mqtt://h:1883, ,mqtt://i:" is empty`,
	} {
		if _, err := ParseURLs(raw, nil); !errors.Is(err, failure.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", raw, err, want)
		}
	}
	for _, raw := range []string{"mqtt://h:1", "h:65535", "mqtt://h, ws://[::1]:80"} {
		if _, err := ParseURLs(raw, nil); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}
