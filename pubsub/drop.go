package pubsub

import (
	"errors"
	"log/slog"
)

// drop counts a message that cannot be used; strangers can send many, so it is
// logged at debug level only.
func (p *Participant) drop(r reason, topic string, err error) {
	p.counters.drop(r)
	if p.log.Enabled(p.ctx, slog.LevelDebug) {
		p.log.Debug("message dropped", "reason", reasonNames[r], "topic", topic, "error", err)
	}
}

// malformed is the reason for an envelope that does not parse.
func malformed(err error) reason {
	if errors.Is(err, errVersion) {
		return dropVersion
	}
	return dropMalformed
}
