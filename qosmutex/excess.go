package qosmutex

import (
	"log/slog"
	"time"

	"padme/qosmutex/internal/limited"
	"padme/qosmutex/protocol"
)

// machineLimits are those of a lock topic, which participants share.
var machineLimits = []limited.Limit{
	protocol.LimitWaiting:      {Name: "waiting-requests", Remedy: "have the participant wait for its requests before it makes more, or remove its account"},
	protocol.LimitIncarnations: {Name: "incarnations", Remedy: "see whether the participant is started again and again, as each start takes a session for a TTL, or remove its account"},
	protocol.LimitSessions:     {Name: "sessions", Remedy: "spread the participants over several locks, or remove the accounts of those that invent participants"},
}

// newExcesses is for one lock topic, or for all of a server: whoever goes beyond a limit in many of
// them is worth one line.
func newExcesses(log *slog.Logger) *limited.Log { return limited.New(log, "from", machineLimits) }

// tellExcesses logs who has gone beyond a limit with the last step. The caller holds mu, and a log
// may block, so only the end of the topic waits for it.
func (t *Topic) tellExcesses() {
	for _, e := range t.out.Excesses {
		if t.reached.Count(int(e.Limit), e.From, time.Now()) && !t.ended { // end waits
			t.aside.Go(func() { t.reached.Tell(int(e.Limit), e.From, e.Most, "lock", t.name) })
		}
	}
}
