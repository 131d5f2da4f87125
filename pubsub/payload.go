package pubsub

import "fmt"

// MaxPayload is the largest payload of a message, raw or not, in bytes: with topic and
// envelope it stays below the megabyte that brokers accept.
const MaxPayload = 1_000_000

func checkPayload(payload []byte) error {
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: %d bytes, the most is %d: split it", ErrTooLarge, len(payload), MaxPayload)
	}
	return nil
}
