package brokers

import (
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

// chosen is read once, and a wrong value is said by whoever starts a broker.
var chosen = Kind(os.Getenv(Env))

// Chosen is the kind that the tests run against.
func Chosen() Kind {
	if chosen == "" {
		return Embedded
	}
	return chosen
}

func (k Kind) check() error {
	if all := []Kind{Embedded, Mosquitto, RabbitMQ, NATS}; !slices.Contains(all, k) {
		return fmt.Errorf("brokers: %s=%q, choose one of %v", Env, k, all)
	}
	return nil
}
