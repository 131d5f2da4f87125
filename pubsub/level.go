package pubsub

import (
	"fmt"
	"strings"

	"padme/pubsub/internal/level"
)

// EncodeLevel returns s as one level of a topic that every broker accepts. Bytes that have
// a meaning in MQTT, RabbitMQ or NATS (space . * $ + # / > %) and the tilde, which this
// package uses as a separator in client ids, become %XX. Each s has exactly one encoding,
// which DecodeLevel reverses. s must be 1 to 128 bytes of UTF-8 without control characters
// and non-characters; otherwise the error wraps ErrInvalid.
func EncodeLevel(s string) (string, error) { return level.Encode(s) }

// CheckName returns an error that wraps ErrInvalid if EncodeLevel rejects name, or if it is
// blank, or "+" or "#", which SubscribeRaw would interpret as a wildcard. Use it for names
// from outside that become levels of a subscription.
func CheckName(name string) error {
	if name == "+" || name == "#" {
		return fmt.Errorf("%w: %q is a wildcard of MQTT, not a name", ErrInvalid, name)
	}
	if strings.TrimSpace(name) == "" && name != "" {
		return fmt.Errorf("%w: %q is blank: choose a name that can be seen", ErrInvalid, name)
	}
	_, err := EncodeLevel(name)
	return err
}

// DecodeLevel reverses EncodeLevel. It rejects, with ErrInvalid, anything that EncodeLevel
// cannot have produced, so two different levels never decode to the same name.
func DecodeLevel(encoded string) (string, error) { return level.Decode(encoded) }
