package gateway

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"padme/pubsub"
)

const (
	probeTries = 5
	probeEvery = time.Second
)

// mayServe reports whether the broker lets the participant read and write what belongs to
// clients. Brokers grant a subscription of which they deliver nothing, and drop what may not
// be written without a word. So it writes as another client first and then as itself, which
// everybody may; the broker keeps the order, so if only the second comes back, the first
// never will. Somebody else who reads the one may have it take another way, so it has a moment more.
func (g *gateway) mayServe(ctx context.Context) error {
	own, other := g.p.ID(), "probe"
	if own == other {
		other = "probe-2"
	}
	token := own + "/" + strconv.FormatUint(g.p.Incarnation(), 10)
	back := make(chan string, 2*probeTries)
	stop, err := g.p.SubscribeRaw(ctx, pubsub.Main, []string{"lock", RoleTopic, "client", "+", "probe"}, func(m pubsub.RawMessage) {
		if len(m.Levels) == 5 && string(m.Payload) == token {
			select {
			case back <- m.Levels[3]:
			default:
			}
		}
	})
	if err != nil {
		return g.mayNot(err)
	}
	defer stop()
	again := time.NewTicker(probeEvery)
	defer again.Stop()
	answered := false
	for try := 0; try < probeTries && !answered; try++ {
		for _, client := range []string{other, own} {
			_ = g.p.PublishRaw(pubsub.Main, []string{"lock", RoleTopic, "client", client, "probe"}, []byte(token), false) // offline: again
		}
		for waiting := true; waiting; {
			select {
			case client := <-back:
				if client == other {
					return nil
				}
				if !answered {
					answered = true
					again.Reset(probeEvery)
				}
			case <-again.C:
				waiting = false
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-g.p.Done():
				return g.p.Err()
			}
		}
	}
	return g.mayNot(pubsub.ErrRefused)
}

func (g *gateway) mayNot(err error) error {
	return fmt.Errorf("%w: participant %q may not serve clients, as its user may not read and write the topics of others below lock/+/client: give it the role gateway, with \"pubsub-node broker passwd FILE %s --role gateway\" or \"pubsub-node acl mosquitto --gateway %s\"",
		err, g.p.ID(), g.p.ID(), g.p.ID())
}
