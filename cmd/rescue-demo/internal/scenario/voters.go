package scenario

import (
	"fmt"

	"padme/pubsub"
	"padme/qosmutex/register/inboxes"
	"padme/qosmutex/register/quorum"
)

// Voters names those that keep who is the root of the lock topic. Under chaos they are
// three processes, of which one at a time is killed. Otherwise there is one, which lives
// as long as the run.
func (c *Config) Voters() []string {
	n := 1
	if c.Chaos {
		n = 3
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("voter-%d", i+1)
	}
	return names
}

// Register is how a participant that can be the root reaches the voters. It must be
// closed before the participant.
func (c *Config) Register(p *pubsub.Participant) (*inboxes.Client, error) {
	return inboxes.NewClient(p, c.Voters(), quorum.LAN())
}
