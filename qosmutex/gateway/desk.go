package gateway

import (
	"context"
	"sync"
	"time"

	"padme/qosmutex"
)

// maxLetters bounds the messages that wait at a desk.
const maxLetters = 256

// letter is a message of a client as it came.
type letter struct {
	client   string
	payload  []byte
	tooLarge int // bytes, in place of a payload
	retained bool
	at       time.Time
}

// desk serves the clients of one lock topic while it has the role; until then it
// waits for it, and messages are another gateway's business.
type desk struct {
	g       *gateway
	name    string
	member  *membership
	letters chan letter
}

func newDesk(g *gateway, name string) *desk {
	return &desk{g: g, name: name, member: newMembership(g, name), letters: make(chan letter, maxLetters)}
}

// run serves whenever the role is had, until ctx ends.
func (d *desk) run(ctx context.Context) {
	memberCtx, leave := context.WithCancel(context.WithoutCancel(ctx)) // it outlasts the last shift
	var member sync.WaitGroup
	member.Go(func() { d.member.run(memberCtx) })
	defer member.Wait()
	defer leave()
	for ctx.Err() == nil && d.g.p.Err() == nil {
		if role := d.campaign(ctx); role != nil {
			d.g.count.serving.Inc()
			d.shift(ctx, role)
			d.g.count.serving.Dec()
		}
	}
}

// atOnce is how soon the role is had that nobody else has.
const atOnce = time.Second

// campaign waits for the role, and returns nil when ctx has ended or it must be asked
// for again. Letters that come meanwhile are dropped: whoever has the role answers
// them, and who gets no answer asks again. They are kept if the role is had at once. If
// not, somebody else may have answered the newest as well, by ending them.
func (d *desk) campaign(ctx context.Context) *qosmutex.Hold {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan *qosmutex.Hold, 1)
	go func() {
		hold, err := d.g.role.lock(ctx, d.name, false, qosmutex.WithPriority(0))
		if err != nil && ctx.Err() == nil {
			d.g.log.Info("the role of the gateway is not to be had yet", "lock", d.name, "error", err)
			pause(ctx, againAfter)
		}
		got <- hold
	}()
	look := time.NewTicker(againAfter)
	defer look.Stop()
	var kept []letter
	asked := time.Now()
	defer func() {
		if time.Since(asked) > atOnce {
			return
		}
		for _, l := range kept {
			select {
			case d.letters <- l:
			default:
			}
		}
	}()
	for {
		select {
		case hold := <-got:
			return hold
		case l := <-d.letters:
			if kept = append(kept, l); len(kept) > maxLetters/4 {
				kept = kept[1:]
			}
		case now := <-look.C:
			if now.Sub(asked) > atOnce {
				kept = nil
			}
		case <-d.g.p.Done():
			cancel()
			return <-got
		}
	}
}

// shift serves until the role is lost or ctx ends, then sees to it that no client
// believes in a hold that is about to be released.
func (d *desk) shift(ctx context.Context, role *qosmutex.Hold) {
	s := &shift{
		desk: d, clients: map[string]*client{}, live: map[*ticket]struct{}{}, news: make(chan news), done: make(chan struct{}),
		strangers: newBucket(time.Now()), role: role, alarm: time.NewTimer(time.Minute),
	}
	defer s.alarm.Stop()
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.queue.watch(s.ctx, d)
	s.serve(ctx)
	s.close()
	d.g.clients.Add(-int32(len(s.clients)))
}
