package brokers

import (
	"cmp"
	"fmt"
	"os"
	"slices"
)

// Kind is one of the brokers that the tests know.
type Kind string

// The kinds. NATS is a cluster of three.
const (
	Embedded  Kind = "embedded"
	Mosquitto Kind = "mosquitto"
	RabbitMQ  Kind = "rabbitmq"
	NATS      Kind = "nats"
)

// Env names the environment variable that chooses a kind.
const Env = "PADME_BROKER"

// Chosen is the kind that the tests run against. A wrong value is said by whoever
// starts a broker. It must be read while tests run: go test knows only then that the
// result depends on it, and else repeats that of another broker from its cache.
func Chosen() Kind { return cmp.Or(Kind(os.Getenv(Env)), Embedded) }

func (k Kind) check() error {
	if all := []Kind{Embedded, Mosquitto, RabbitMQ, NATS}; !slices.Contains(all, k) {
		return fmt.Errorf("brokers: %s=%q, choose one of %v", Env, k, all)
	}
	return nil
}
