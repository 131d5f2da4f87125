//go:build linux

package browser

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/register/local"
	"padme/tests/address"
	"padme/tests/cable"
	"padme/tests/extent"
)

// startEmbedded runs a broker until the end of the test.
func startEmbedded(t *testing.T, addr, ws string) *broker.Broker {
	t.Helper()
	extent.NotShort(t, "real processes")
	b, err := broker.Start(t.Context(), broker.Config{TCP: addr, WebSocket: ws})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(b.Close) })
	return b
}

func stop(end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = end(ctx)
}

// quick notices a death soon, but not that of who waits for a loaded machine.
func quick() qosmutex.Timing {
	timing := qosmutex.Local()
	timing.TTL = 6 * time.Second
	timing.Heartbeat = 500 * time.Millisecond
	return timing
}

// member is a participant with a lock topic.
type member struct {
	*testing.T
	p     *pubsub.Participant
	topic *qosmutex.Topic
	more  map[string]*qosmutex.Topic
	cut   func() // ends its connections for good, as a crash does
}

// join makes a participant a member of a lock topic.
func join(t *testing.T, url, id, topic string, opts ...qosmutex.Option) *member {
	t.Helper()
	return joinAs(t, url, id, topic, nil, opts...)
}

// joinAs joins with other options for the participant, too.
func joinAs(t *testing.T, url, id, topic string, as []pubsub.Option, opts ...qosmutex.Option) *member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := &member{T: t}
	wire := cable.New(cable.TCP(url))
	m.cut = wire.Cut
	var err error
	if m.p, err = pubsub.Join(ctx, url, id, append(as, pubsub.WithDialer(wire.Dial))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(m.p.Close) })
	if m.topic, err = qosmutex.Open(ctx, m.p, topic, append([]qosmutex.Option{qosmutex.WithTiming(quick())}, opts...)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(m.topic.Close) })
	return m
}

// also makes the participant a member of another lock topic.
func (m *member) also(topic string, opts ...qosmutex.Option) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	opened, err := qosmutex.Open(ctx, m.p, topic, append([]qosmutex.Option{qosmutex.WithTiming(quick())}, opts...)...)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { stop(opened.Close) })
	if m.more == nil {
		m.more = map[string]*qosmutex.Topic{}
	}
	m.more[topic] = opened
}

// in is the same participant with another of its lock topics.
func (m *member) in(topic string) *member { return &member{T: m.T, p: m.p, topic: m.more[topic]} }

func (m *member) lock(resource string, priority int64) *qosmutex.Hold {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	h, err := m.topic.Lock(ctx, resource, qosmutex.WithPriority(priority))
	if err != nil {
		m.Fatal(err)
	}
	return h
}

func (m *member) unlock(h *qosmutex.Hold) {
	m.Helper()
	if err := h.Unlock(); err != nil {
		m.Fatal(err)
	}
}

// waits has a member wait for a resource until the test ends or it is inside.
func (m *member) waits(resource string, priority int64) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if h, err := m.topic.Lock(ctx, resource, qosmutex.WithPriority(priority)); err == nil {
			<-ctx.Done()
			_ = h.Unlock()
		}
	}()
	m.Cleanup(func() { cancel(); <-done })
}

// keepBusy has members use a resource in turns until the returned function is called.
func keepBusy(t *testing.T, members []*member) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i, m := range members[1:] {
		running.Go(func() {
			for ctx.Err() == nil {
				h, err := m.topic.Lock(ctx, "east", qosmutex.WithPriority(int64(i)))
				if err != nil {
					return
				}
				select { // somebody has to work
				case <-ctx.Done():
				case <-time.After(120 * time.Millisecond):
				}
				_ = h.Unlock()
			}
		})
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return cancel
}

// startUI serves the board.
func startUI(t *testing.T, url string, args ...string) string {
	t.Helper()
	_, where := startReady(t, "pubsub-node", append([]string{"ui", "--broker", url, "--web", "127.0.0.1:0"}, args...)...)
	return where
}

// row is the row of a lock in the page, as a JavaScript expression.
func row(topic, resource string) string {
	return fmt.Sprintf("document.querySelector('.row[data-topic=%q][data-resource=%q]')", topic, resource)
}

// site is a broker, a tree of three with two cranes, and the board.
type site struct {
	addr                string
	url, board          string
	broker              *broker.Broker
	root, first, second *member
}

func startSite(t *testing.T, args ...string) *site {
	t.Helper()
	s := &site{addr: address.Free(t)}
	s.broker = startEmbedded(t, s.addr, "")
	s.url = s.broker.URL()
	shared := qosmutex.WithRegister(local.Memory()) // each of them can be the root
	s.root = join(t, s.url, "tower", "crane", shared, qosmutex.Create(), qosmutex.WithResources("north", "south"), qosmutex.WithNodePriority(0))
	s.first = join(t, s.url, "lift-1", "crane", shared, qosmutex.WithNodePriority(1))
	s.second = join(t, s.url, "lift-2", "crane", shared, qosmutex.WithNodePriority(2))
	s.board = startUI(t, s.url, args...)
	return s
}

// TestBoard: what the page shows is what the retained messages say.
func TestBoard(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	held := s.first.lock("north", 7)
	s.second.waits("north", 9)
	p := startBrowser(t).open(s.board, desktop)
	p.await("%s?.dataset.holder === 'lift-1'", row("crane", "north"))
	p.await("%s?.dataset.state === 'free'", row("crane", "south"))
	p.await("%s.querySelector('.queue').textContent === '1 waiting: lift-2'", row("crane", "north"))
	p.await("document.querySelector('.tree .node.root')?.dataset.id === 'tower'")
	p.await("document.querySelectorAll('.tree .node').length === 3 && document.querySelectorAll('.tree .edge').length === 2")
	agree(t, p, s.url)

	// The keyboard leads to one lock.
	p.press("/")
	p.typed("lift-1 nor")
	p.await("[...document.querySelectorAll('#list li')].filter(i => !i.hidden).length === 1")
	p.press("ArrowDown")
	p.press("Enter")
	p.await("location.hash === '#/lock/crane/north' && document.querySelector('#holder')?.textContent === 'lift-1'")
	p.await("document.querySelector('#fence').textContent === '%d'", held.Fence())
	p.await("document.querySelector('#detail tbody tr')?.textContent.startsWith('1lift-2 9')")
	p.eval("document.querySelector('.tree .node[tabindex=\"0\"]').focus()", nil)
	p.press("ArrowRight")
	p.await("document.activeElement.classList.contains('node') && document.querySelectorAll('.tree .node[tabindex=\"0\"]').length === 1")
	p.await("document.querySelectorAll('.row[tabindex=\"0\"]').length === 1")
	p.press("Escape")
	p.await("location.hash === '#/' && document.querySelector('#detail').hidden")
	p.click("nav a[data-view=people]")
	p.await("[...document.querySelectorAll('#people li')].some(i => i.dataset.id === 'lift-1' && i.textContent.includes('holds crane north'))")
	p.click("nav a[data-view=locks]")

	// It goes on.
	s.first.unlock(held)
	p.await("%s.dataset.holder === 'lift-2'", row("crane", "north"))
	agree(t, p, s.url)
	p.await("[...document.querySelectorAll('#history li')].some(i => i.textContent.includes('released') && i.textContent.includes('lift-1'))")
	p.await("document.querySelector('#connection').dataset.state === 'connected'")
	p.quiet()
}
