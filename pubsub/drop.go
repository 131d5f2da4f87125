package pubsub

import (
	"log/slog"

	"padme/pubsub/internal/drop"
)

// drop counts a message that cannot be used; strangers can send many, so it is
// logged at debug level only.
func (p *Participant) drop(r drop.Reason, topic string, err error) {
	p.counters.drop(r)
	if p.log.Enabled(p.ctx, slog.LevelDebug) {
		p.log.Debug("message dropped", "reason", r, "topic", topic, "error", err)
	}
}
