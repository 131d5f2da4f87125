//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/register/local"
	"padme/tests/address"
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
	wire := &cable{to: strings.TrimPrefix(url, "mqtt://")}
	m.cut = wire.cut
	var err error
	if m.p, err = pubsub.Join(ctx, url, id, append(as, pubsub.WithDialer(wire.dial))...); err != nil {
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

// cable is what a participant is connected by.
type cable struct {
	to  string
	mu  sync.Mutex
	all []net.Conn
	off bool
}

func (c *cable) dial(ctx context.Context) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		return nil, net.ErrClosed
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.to)
	if err == nil {
		c.all = append(c.all, conn)
	}
	return conn, err
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = true
	for _, conn := range c.all {
		_ = conn.Close()
	}
}

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

// retainedStates are the states of all locks as the broker has them.
func retainedStates(t *testing.T, url string) map[[2]string]qosmutex.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := pubsub.Join(ctx, url, "judge")
	if err != nil {
		t.Fatal(err)
	}
	defer stop(p.Close)
	all := map[[2]string]qosmutex.State{}
	reading, enough := context.WithTimeout(ctx, time.Second)
	defer enough()
	for st, err := range qosmutex.WatchStates(reading, p, "") {
		if err != nil {
			t.Fatal(err)
		}
		all[[2]string{st.Topic, st.Resource}] = st
	}
	return all
}

// differences are the locks whose holder or fence on the page is not that of the
// retained state.
func differences(t *testing.T, p *page, url string) []string {
	t.Helper()
	var shown []struct{ Topic, Resource, Holder, Fence string }
	p.eval("[...document.querySelectorAll('.row')].map(r => ({topic: r.dataset.topic, resource: r.dataset.resource, fence: r.dataset.fence, holder: r.querySelector('.holder').textContent}))", &shown)
	states := retainedStates(t, url)
	var all []string
	for _, l := range shown {
		st, ok := states[[2]string{l.Topic, l.Resource}]
		delete(states, [2]string{l.Topic, l.Resource})
		if l.Holder == "–" {
			l.Holder = ""
		}
		if !ok || st.Holder != l.Holder || st.Fence != l.Fence {
			all = append(all, fmt.Sprintf("%s/%s: the page has %q with fence %s, the broker %q with fence %s", l.Topic, l.Resource, l.Holder, l.Fence, st.Holder, st.Fence))
		}
	}
	for at := range states {
		all = append(all, fmt.Sprintf("%v is not on the page", at))
	}
	return all
}

// agree demands that page and broker say the same. Nothing must happen meanwhile.
func agree(t *testing.T, p *page, url string) {
	t.Helper()
	if all := differences(t, p, url); len(all) > 0 {
		t.Errorf("the page is wrong:\n%s", strings.Join(all, "\n"))
	}
}

// TestWrongHolderIsNoticed: a page that shows a wrong holder does not agree.
func TestWrongHolderIsNoticed(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.first.lock("north", 7)
	p := startBrowser(t).open(s.board, desktop)
	p.await("%s?.dataset.holder === 'lift-1'", row("crane", "north"))
	agree(t, p, s.url)
	p.eval(row("crane", "north")+".querySelector('.holder').textContent = 'nobody-knows'", nil)
	if all := differences(t, p, s.url); len(all) != 1 || !strings.Contains(all[0], `crane/north: the page has "nobody-knows"`) || !strings.Contains(all[0], `the broker "lift-1"`) {
		t.Errorf("a wrong holder is noticed as %q", all)
	}
}

// TestClientIsNamed: the page names the client that holds and the one that waits, and the
// participant that they come through; that one is what the tree and the list of
// participants show.
func TestClientIsNamed(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	held, err := s.first.topic.Lock(t.Context(), "north", qosmutex.WithClient("esp32"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.second.topic.Lock(ctx, "north", qosmutex.WithClient("esp33"))
	}()
	defer func() { giveUp(); <-ended }()
	p := startBrowser(t).open(s.board, desktop)
	p.await("%s?.querySelector('.holder').textContent === 'esp32 (via lift-1)'", row("crane", "north"))
	p.await("%s.querySelector('.queue').textContent === '1 waiting: esp33'", row("crane", "north"))
	p.click("nav a[data-view=people]")
	p.await("[...document.querySelectorAll('#people li')].some(i => i.dataset.id === 'lift-1' && i.textContent.includes('holds crane north for esp32'))")
	p.click("nav a[data-view=locks]")
	p.eval("location.hash = '#/lock/crane/north'", nil)
	p.await("document.querySelector('#holder')?.textContent === 'esp32 (via lift-1)'")
	p.await("document.querySelector('#detail tbody tr')?.textContent.startsWith('1esp33 (via lift-2) ')")
	p.await("document.querySelector('.tree .node[data-id=lift-1]')?.textContent.includes('holds it for esp32')")
	if err := held.Unlock(); err != nil {
		t.Error(err)
	}
	p.await("[...document.querySelectorAll('#history li')].some(i => i.textContent.includes('released') && i.textContent.includes('esp32 (via lift-1)'))")
	p.quiet()
}

// TestRootIsKilled: the page shows the new root, and that the old one is gone.
func TestRootIsKilled(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	p := startBrowser(t).open(s.board, desktop)
	p.await("document.querySelector('.tree .node.root')?.dataset.id === 'tower'")
	p.await("document.querySelectorAll('.tree .node.candidate').length === 3")
	s.root.cut()
	p.await("document.querySelector('.tree .node[data-id=tower]')?.dataset.role !== 'root' && document.querySelector('.tree .node.root')?.dataset.id === 'lift-1'")
	p.await("document.querySelector('#tree-facts').dataset.root === 'lift-1'")
	h := s.second.lock("north", 1)
	p.await("%s.dataset.holder === 'lift-2' && %[1]s.dataset.fence === '%[2]d'", row("crane", "north"), h.Fence())
	p.quiet()
}

// TestBrokerIsRestarted without its memory: the page says that it is offline, comes
// back by itself and then agrees again.
func TestBrokerIsRestarted(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	h := s.first.lock("north", 7)
	p := startBrowser(t).open(s.board, desktop)
	p.await("%s?.dataset.holder === 'lift-1'", row("crane", "north"))
	p.quiet()
	stop(s.broker.Close)
	p.await("document.querySelector('#connection').dataset.state === 'offline'")
	startEmbedded(t, s.addr, "")
	p.await("document.querySelector('#connection').dataset.session === '2' && document.querySelector('#connection').dataset.state === 'connected'")
	if h.Check() == nil {
		s.first.unlock(h)
	}
	next := s.second.lock("south", 7)
	p.await("%s?.dataset.fence === '%d'", row("crane", "south"), next.Fence())
	p.await("board.locks.states.size === 2 && board.tree.edges.size === 2")
	agree(t, p, s.url)
}

// watchLies counts, in the page, how often a row that nobody confirms stands there as if it
// were certain: while there is no connection, and after a new one.
const watchLies = `globalThis.lies = []; globalThis.doubts = new Set();
setInterval(() => {
  const c = document.querySelector("#connection"), row = document.querySelector(".row[data-resource=north]");
  if (!c || !row) return;
  if (row.dataset.doubt) doubts.add(row.dataset.doubt);
  if (c.dataset.state === "connected" ? c.dataset.session === "2" && !row.dataset.doubt : document.body.dataset.fresh !== "stale") lies.push(c.outerHTML + row.outerHTML);
}, 5)`

// TestDeadDataLooksDead: without the broker times stop and the page says as of when; after a
// reconnection what nobody says again is in doubt until it is forgotten.
func TestDeadDataLooksDead(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.first.lock("north", 7)
	w := desktop
	w.init = watchLies
	p := startBrowser(t).open(s.board, w)
	p.await("%s?.dataset.holder === 'lift-1' && document.body.dataset.fresh === 'live'", row("crane", "north"))
	p.eval("location.hash = '#/lock/crane/north'", nil)
	p.await("!document.querySelector('#detail').hidden")
	const clocks = "[document.querySelector('.row[data-resource=north] .since'), ...document.querySelectorAll('#detail .num')].map(e => e.textContent).join()"
	stop(s.broker.Close)
	for _, m := range []*member{s.root, s.first, s.second} { // so that nobody says it again
		m.cut()
	}
	p.await("document.body.dataset.fresh === 'stale' && /^as of .+ behind$/.test(document.querySelector('#age').textContent)")
	p.eval("new Promise(passed => setTimeout(passed, 1100))", nil) // after which all times were drawn
	before := p.text(clocks)
	p.eval("new Promise(passed => setTimeout(passed, 2500))", nil)
	if after := p.text(clocks); after != before {
		t.Errorf("without a broker times went from %s to %s", before, after)
	}
	startEmbedded(t, s.addr, "")
	p.await("document.querySelector('#connection').dataset.session === '2' && document.body.dataset.fresh === 'live'")
	p.await("document.querySelectorAll('.row').length === 0 && doubts.has('old')")
	if lies := p.text("lies.length + ' ' + lies[0]"); !strings.HasPrefix(lies, "0 ") {
		t.Errorf("what nobody confirms was shown as certain: %s", lies)
	}
}

// TestFocusSurvives what the page draws: focus and selection stay in the details of a lock
// that changes, and nothing jumps when the connection is lost.
func TestFocusSurvives(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	held := s.first.lock("north", 7)
	p := startBrowser(t).open(s.board+"#/lock/crane/north", desktop)
	p.await("document.querySelector('#holder')?.textContent === 'lift-1'")
	p.eval(`document.querySelector("#detail .back").focus(); window.back = document.activeElement;
		getSelection().selectAllChildren([...document.querySelectorAll("#detail dt")].find(d => d.textContent === "root")); 0`, nil)
	s.first.unlock(held)
	next := s.second.lock("north", 7)
	p.await("document.querySelector('#holder')?.textContent === 'lift-2' && document.querySelector('#fence').textContent === '%d'", next.Fence())
	if still := p.text("document.activeElement === back && back.isConnected && getSelection().toString().trim()"); still != "root" {
		t.Errorf("focus and selection are %q, want those of before", still)
	}
	p.click("nav a[data-view=people]")
	const link = "document.querySelector('#people li[data-id=lift-2] .does a')"
	p.await(link + " !== null")
	p.eval(link+".focus(); window.link = document.activeElement; 0", nil)
	s.second.lock("south", 7)
	p.await("document.querySelector('#people li[data-id=lift-2] .does').textContent.includes('south')")
	if still := p.text("document.activeElement === link && link.isConnected"); still != "true" {
		t.Error("the focus is lost when a participant gets another lock")
	}
	const top = "document.querySelector('main').getBoundingClientRect().top"
	at := p.text(top)
	stop(s.broker.Close)
	p.await("document.body.dataset.fresh === 'stale' && document.querySelector('#age').textContent !== ''")
	if now := p.text(top); now != at {
		t.Errorf("the page was at %s, and without a connection it is at %s", at, now)
	}
}

// TestHolderIsKilled: row and details say together that the holder is gone.
func TestHolderIsKilled(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	s.first.lock("north", 7)
	w := desktop
	w.init = watchLies
	p := startBrowser(t).open(s.board, w)
	p.await("%s?.dataset.holder === 'lift-1'", row("crane", "north"))
	s.first.cut()
	p.await("doubts.has('gone')")
	p.await("%s.dataset.state === 'free' && !%[1]s.dataset.doubt", row("crane", "north"))
}

// TestBrokerIsSilent: a connection on which nothing comes back is not taken for one.
func TestBrokerIsSilent(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, "127.0.0.1:0", "")
	ui, where := startReady(t, "pubsub-node", "ui", "--broker", b.URL(), "--web", "127.0.0.1:0")
	p := startBrowser(t).open(where, desktop)
	p.await("document.body.dataset.fresh === 'live'")
	suspend := func(s syscall.Signal) {
		if err := ui.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	suspend(syscall.SIGSTOP)
	p.await("document.querySelector('#connection').dataset.state === 'silent' && document.body.dataset.fresh === 'stale'")
	suspend(syscall.SIGCONT)
	p.await("document.querySelector('#connection').dataset.state === 'connected' && document.body.dataset.fresh === 'live'")
	p.quiet()
}

// TestMessagesTravel: Request, Reply and Release are drawn on the edges of the tree.
func TestMessagesTravel(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	p := startBrowser(t).open(s.board, desktop)
	p.await("board.tree.edges.size === 2")
	for _, speed := range []string{"live", "slow"} {
		p.eval(fmt.Sprintf("(() => { const s = document.querySelector('#speed'); s.value = %q; s.dispatchEvent(new Event('change')); board.tree.sent = {request: 0, reply: 0, release: 0}; board.seen = new Set(); new MutationObserver(all => all.forEach(m => m.addedNodes.forEach(n => board.seen.add(n.classList[1])))).observe(document.querySelector('.messages'), {childList: true}); return 0 })()", speed), nil)
		const all = "['request', 'reply', 'release'].every(k => board.tree.sent[k] > 0 && board.seen.has(k))"
		for end := time.Now().Add(patience); p.reaches(time.Second, all) != nil; {
			if time.Now().After(end) {
				t.Fatalf("%s: not all of three kinds were drawn: %s", speed, p.text("JSON.stringify([board.tree.sent, [...board.seen]])"))
			}
			s.second.unlock(s.second.lock("north", 7))
		}
	}
	p.quiet()
}

// TestDirectWebSocket: the page connects to the broker's own WebSocket listener.
func TestDirectWebSocket(t *testing.T) {
	t.Parallel()
	ws := address.Free(t)
	b := startEmbedded(t, "127.0.0.1:0", ws)
	m := join(t, b.URL(), "tower", "crane", qosmutex.Create(), qosmutex.WithResources("north"))
	m.lock("north", 7)
	p := startBrowser(t).open(startUI(t, "ws://"+ws), desktop)
	p.await("%s?.dataset.holder === 'tower'", row("crane", "north"))
	if all := p.complaints(); len(all) != 1 || all[0] != "another host: ws://"+ws+"/" {
		t.Errorf("the browser complains: %q, want that it connects to ws://%s", all, ws)
	}
}

// TestBrokerWithUsers: the page asks for the password of its user, and says what a
// broker with users does not show.
func TestBrokerWithUsers(t *testing.T) {
	t.Parallel()
	var users broker.Users
	for name, role := range map[string]broker.Role{"tower": broker.Member, "lift": broker.Member, "panel": broker.Observer} {
		if err := users.Add(name, name); err != nil {
			t.Fatal(err)
		}
		if err := users.Grant(name, role); err != nil {
			t.Fatal(err)
		}
	}
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0", Users: &users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(b.Close) })
	as := func(name string) []pubsub.Option { return []pubsub.Option{pubsub.WithCredentials(name, name)} }
	tower := joinAs(t, b.URL(), "tower", "crane", as("tower"), qosmutex.Create(), qosmutex.WithResources("north"), qosmutex.WithNodePriority(0))
	joinAs(t, b.URL(), "lift", "crane", as("lift"))
	tower.lock("north", 7)
	p := startBrowser(t).open(startUI(t, b.URL(), "--user", "panel"), desktop)
	for _, password := range []string{"wrong", "panel"} {
		p.await("document.querySelector('dialog')?.textContent.includes('Password of panel') && document.activeElement.type === 'password'")
		p.typed(password)
		p.press("Enter")
		p.await("!document.querySelector('dialog') || document.activeElement.value === ''")
	}
	p.await("%s?.dataset.holder === 'tower'", row("crane", "north"))
	p.await("document.querySelectorAll('.tree .node').length === 2")
	p.await("!document.querySelector('#tree-note').hidden && document.querySelector('#tree-note').textContent.includes('cannot be drawn')")
	p.quiet()
}

// TestHostileNames: whatever others call themselves and their locks is text.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, "127.0.0.1:0", "")
	const evil = `<img src=x onerror="document.title='owned'">'"&` + "\u202e\u200b"
	const shown = `<img src=x onerror="document.title='owned'">'"&\u{202e}\u{200b}`
	c := &crowd{T: t}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if c.p, err = pubsub.Join(ctx, b.URL(), "liar"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(c.p.Close) })
	since := time.Now()
	c.publish([]string{"presence", evil}, map[string]any{"alive": true, "incarnation": "1", "epoch": "1", "since": since})
	c.publish([]string{"lock", evil, "member", evil}, qosmutex.Member{Topic: evil, Participant: evil, Incarnation: 1, Role: "root", Epoch: crowdEpoch})
	c.publish([]string{"lock", evil, "view"}, qosmutex.View{Topic: evil, Epoch: crowdEpoch, Root: evil, Models: evil, Members: 1})
	c.publish([]string{"lock", evil, evil, "state"}, qosmutex.State{Topic: evil, Resource: evil, Holder: evil, Fence: evil, Epoch: crowdEpoch, Root: evil, Waiting: 1, Queue: []qosmutex.Waiter{{Participant: evil}}})
	c.publish([]string{"lock", "crane", "north", "state"}, []int{1})
	p := startBrowser(t).open(startUI(t, b.URL()), desktop)
	p.await("document.querySelectorAll('.row').length === 1 && document.querySelectorAll('.tree .node').length === 1")
	event, _ := json.Marshal(qosmutex.Event{Event: evil, Topic: evil, Resource: evil, Participant: evil, Models: evil, Reason: evil, At: since})
	for p.reaches(time.Second, "document.querySelectorAll('#history li').length > 0") != nil && ctx.Err() == nil {
		if err := c.p.PublishRaw(pubsub.Side, []string{"lock", evil, "events"}, event, false); err != nil {
			t.Fatal(err)
		}
	}
	p.press("ArrowDown")
	p.press("Enter")
	p.await("document.querySelector('#holder')?.textContent === %q", shown)
	p.click("nav a[data-view=people]")
	p.await("document.querySelectorAll('#people li').length === 2")
	p.click("nav a[data-view=tree]")
	p.await("document.querySelectorAll('.tree .node title').length === 1")
	if raw := p.text(`/[\u202e\u200b]/.test(document.body.textContent + [...document.querySelectorAll("[aria-label]")].map((e) => e.ariaLabel))`); raw != "false" {
		t.Error("the page shows characters that turn the text, or cannot be seen")
	}
	if title := p.text("document.title"); title != "Locks" {
		t.Errorf("a name has changed the title to %q", title)
	}
	if n := p.text("document.querySelectorAll('img').length"); n != "0" {
		t.Errorf("%s names became pictures", n)
	}
	p.quiet()
}

// TestMosquitto: the page works with a broker that is not ours, by the bridge and by
// the broker's own WebSocket listener.
func TestMosquitto(t *testing.T) {
	t.Parallel()
	program := need(t, "apt-get install mosquitto", "mosquitto")
	addr, ws := address.Free(t), address.Free(t)
	_, port, _ := net.SplitHostPort(addr)
	_, wsPort, _ := net.SplitHostPort(ws)
	config := filepath.Join(t.TempDir(), "mosquitto.conf")
	text := fmt.Sprintf("listener %s 127.0.0.1\nset_tcp_nodelay true\nlistener %s 127.0.0.1\nprotocol websockets\nallow_anonymous true\nuser root\n", port, wsPort)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, program, "-c", config)
	for _, a := range []string{addr, ws} {
		eventually(t, "mosquitto serves", func() bool {
			conn, err := net.Dial("tcp", a)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
	}
	url := "mqtt://" + addr
	tower := join(t, url, "tower", "crane", qosmutex.Create(), qosmutex.WithResources("146.520", "south"), qosmutex.WithNodePriority(0))
	lift := join(t, url, "lift", "crane", qosmutex.WithNodePriority(1))
	lift.lock("146.520", 7)
	chromium := startBrowser(t)
	var pages []*page
	for _, where := range []string{url, "ws://" + ws} {
		p := chromium.open(startUI(t, where), desktop)
		p.await("%s?.dataset.holder === 'lift'", row("crane", "146.520"))
		p.await("board.tree.edges.size === 1")
		pages = append(pages, p)
	}
	tower.lock("south", 1)
	for _, p := range pages {
		p.await("%s?.dataset.holder === 'tower'", row("crane", "south"))
		agree(t, p, url)
	}
}

// TestOddMessage: a message that the page fails at is the only one that it misses.
func TestOddMessage(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, "127.0.0.1:0", "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := pubsub.Join(ctx, b.URL(), "somebody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(p.Close) })
	c := &crowd{T: t, p: p}
	state := func(resource string) {
		c.publish([]string{"lock", "crane", resource, "state"}, qosmutex.State{Topic: "crane", Resource: resource, Epoch: crowdEpoch})
	}
	page := startBrowser(t).open(startUI(t, b.URL()), desktop)
	page.await("globalThis.board && document.querySelector('#connection').dataset.state === 'connected'")
	state("first")
	page.await("document.querySelectorAll('.row').length === 1")
	page.eval("board.locks.apply = () => { delete board.locks.apply; throw new Error('odd') }", nil)
	state("odd")
	page.await("!Object.hasOwn(board.locks, 'apply')")
	state("last")
	page.await("document.querySelectorAll('.row').length > 1")
	if n := page.text("document.querySelector('#connection').dataset.session"); n != "1" {
		t.Errorf("the page connected %s times", n)
	}
}
