package pubsub

import (
	"context"

	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
)

// network is what discovery has of its participant.
type network struct{ p *Participant }

func (n network) Put(pk connection.Packet) error           { return n.p.put(pk) }
func (n network) Post(to string, message []byte)           { n.p.message(to, message) }
func (n network) Start(f func()) bool                      { return n.p.start(f) }
func (n network) End(why error)                            { n.p.end(why) }
func (n network) Drop(r drop.Reason, at string, err error) { n.p.drop(r, at, err) }
func (n network) CaughtUp(ctx context.Context) error       { return n.p.exchange.caughtUp(ctx) }

func (n network) Connected(ctx context.Context) (context.Context, context.CancelFunc) {
	return n.p.main.Connected(ctx)
}

func (n network) Subscribe(ctx context.Context, filter string, handler func(topic string, payload []byte, retained bool)) (stop func(), err error) {
	return n.p.subscribe(ctx, n.p.main, filter, handler)
}
