package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"padme/internal/wait"
	"padme/qosmutex"
)

const (
	// atOnce is how soon the role is had that nobody else has.
	atOnce = time.Second
	// againAfter is the pause after something failed.
	againAfter = 500 * time.Millisecond
)

// topic serves the clients of one lock topic while this gateway is the active one there;
// until then it stands by, and messages are another gateway's business.
type topic struct {
	g     *gateway
	name  string
	by    string // the client that was the first to name it
	inbox *inbox
	lasts time.Duration // the TTL of the role, known once it is held

	end    context.CancelFunc // of run
	active atomic.Bool        // this gateway has the role
	used   atomic.Int64       // when something was heard for it, in ns of the wall clock
	live   atomic.Int32       // requests that wait or hold

	resumes atomic.Bool // holds of an earlier process go on, and nobody has seen to them
}

func newTopic(g *gateway, name string) *topic {
	return &topic{g: g, name: name, inbox: newInbox(&g.unread)}
}

// run serves whenever the role is had, until ctx ends.
func (t *topic) run(ctx context.Context) {
	defer t.inbox.clear()
	defer t.end()
	opening, cancel := context.WithCancel(ctx)
	defer cancel()
	t.g.wg.Go(func() { // it is open by the time that the role is had from another gateway
		if wait.Sleep(opening, atOnce); opening.Err() == nil {
			_, _ = t.g.server.Topic(opening, t.name)
		}
	})
	for ctx.Err() == nil && t.g.p.Err() == nil {
		if role := t.campaign(ctx); role != nil {
			t.g.count.serving.Inc()
			t.active.Store(true)
			t.serve(ctx, role)
			t.active.Store(false)
			t.g.count.serving.Dec()
		}
	}
}

// campaign waits for the role, and returns nil when ctx has ended or it must be asked
// for again. Messages that come meanwhile are dropped: whoever has the role answers
// them, and who gets no answer asks again. If nobody can have it, their clients are told so.
// They are kept if the role is had at once. If
// not, somebody else may have answered the newest as well, by ending them.
func (t *topic) campaign(ctx context.Context) *qosmutex.Hold {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan *qosmutex.Hold, 1)
	go func() {
		hold, err := t.lockRole(ctx)
		if err != nil && ctx.Err() == nil {
			t.g.log.Info("the role of the gateway is not to be had yet", "lock", t.name, "error", err)
			wait.Sleep(ctx, againAfter)
		}
		got <- hold
	}()
	look := time.NewTicker(againAfter)
	defer look.Stop()
	asked, e := time.Now(), excuses{topic: t, ends: map[clientKey]time.Time{}}
	for {
		select {
		case hold := <-got:
			if time.Since(asked) > atOnce {
				t.inbox.clear()
			}
			return hold
		case now := <-look.C:
			e.answer(now, now.Sub(asked) > atOnce)
		case <-t.g.p.Done():
			cancel()
			return <-got
		}
	}
}

// lockRole takes the role, over as many openings of its topic as it needs.
func (t *topic) lockRole(ctx context.Context) (*qosmutex.Hold, error) {
	for {
		role, err := t.g.server.Topic(ctx, RoleTopic)
		if err != nil {
			return nil, err
		}
		t.lasts = time.Duration(role.View().TTL * float64(time.Second))
		if hold := t.resumedRole(role); hold != nil {
			return hold, nil
		}
		if !role.View().Open { // the server's default is another one
			if err := role.Configure(ctx, qosmutex.WithOpenResources()); err != nil {
				return nil, err
			}
		}
		hold, err := role.Lock(ctx, t.name, qosmutex.WithPriority(0), qosmutex.WithNote(nil))
		if err == nil || ctx.Err() != nil || !errors.Is(err, qosmutex.ErrClosed) {
			return hold, err
		}
		wait.Sleep(ctx, againAfter/10) // the topic is about to be opened again
	}
}

// serve answers until the role is lost or ctx ends, then sees to it that no client
// believes in a hold that is about to be released.
func (t *topic) serve(ctx context.Context, role *qosmutex.Hold) {
	a := newActive(ctx, t, role)
	defer a.alarm.Stop()
	a.queue.watch(a.ctx, t)
	a.resume(ctx)
	a.serve(ctx)
	a.close()
	for name := range a.clients {
		t.g.know(name, t, false)
	}
}
