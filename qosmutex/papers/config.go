package papers

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
)

// Config is what one member runs. Algorithm, Members, Fanout, Resources and AnyResource
// must be the same for all members of a topic.
type Config struct {
	// Algorithm is one of Algorithms, other than PADME.
	Algorithm protocol.Algorithm
	// Members are the ids of all participants, in an order that all agree on. The first one
	// is the server, or has the token at the start. Trees are complete in this order, of
	// Fanout children each (0: 2).
	Members []string
	Fanout  int
	// Resources are those of the topic, or with AnyResource some of them.
	Resources   []string
	AnyResource bool
	// Priority is that of the participant's requests without WithPriority. Smaller is
	// more important.
	Priority int64
	// Hop is how long a message takes from one member to another at most (0: 20 ms, as on a
	// LAN). Lost messages are repeated after a few of it, and deadlines are promised on it.
	Hop time.Duration
	// Logger is where the topic logs; nil: nowhere.
	Logger *slog.Logger
}

func (c *Config) check() error {
	switch {
	case c.Algorithm.Name == padme.Algorithm.Name:
		return fmt.Errorf("%w: algorithm %q finds its members by itself: use qosmutex.Open", qosmutex.ErrInvalidConfig, c.Algorithm.Name)
	case c.Algorithm.New == nil || !c.Algorithm.Static:
		return fmt.Errorf("%w: algorithm %q: take one of Algorithms", qosmutex.ErrInvalidConfig, c.Algorithm.Name)
	case c.Hop < 0:
		return fmt.Errorf("%w: hop %v is negative", qosmutex.ErrInvalidConfig, c.Hop)
	}
	for _, name := range slices.Concat(c.Members, c.Resources) {
		if err := checkName(name); err != nil {
			return err
		}
	}
	return nil
}

// protocol is what the machine of self is made from. It has no sessions, so of the timing
// only Hop counts.
func (c *Config) protocol(self protocol.Node, floor uint64) protocol.Config {
	timing := protocol.LAN()
	if c.Hop > 0 {
		timing.Hop = protocol.Duration(c.Hop)
	}
	resources := slices.Clone(c.Resources)
	slices.Sort(resources)
	return protocol.Config{
		Self: self, Priority: c.Priority, Timing: timing, Fanout: c.Fanout, Members: c.Members,
		Settings:   protocol.Settings{Resources: slices.Compact(resources), Open: c.AnyResource},
		FenceFloor: floor, EpochFloor: floor, Seed: seedOf(self),
	}
}

// checkName refuses what is not one level of an MQTT topic.
func checkName(name string) error {
	if name == qosmutex.Any {
		return fmt.Errorf("%w: %q means any resource", qosmutex.ErrInvalidName, name)
	}
	if err := pubsub.CheckName(name); err != nil {
		return fmt.Errorf("%w: %w", qosmutex.ErrInvalidName, err)
	}
	return nil
}
