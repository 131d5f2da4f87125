//go:build linux

package browser

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/extent"
)

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
	extent.Long(t, "a dead holder")
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
	extent.Long(t, "a gateway")
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
	extent.Long(t, "a new root")
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
	extent.Long(t, "an outage")
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
// were certain: while there is no connection, and after a new one. Somebody searches meanwhile,
// so that the page has always drawn a moment ago and waits before it draws again.
const watchLies = `globalThis.lies = []; globalThis.doubts = new Set();
setInterval(() => document.querySelector("#search")?.dispatchEvent(new Event("input")), 20);
setInterval(() => {
  const c = document.querySelector("#connection"), row = document.querySelector(".row[data-resource=north]");
  if (!c || !row) return;
  if (row.dataset.doubt) doubts.add(row.dataset.doubt);
  if (c.dataset.state === "connected" ? c.dataset.session === "2" && !row.dataset.doubt : document.body.dataset.fresh !== "stale") lies.push(c.outerHTML + row.outerHTML);
}, 5)`

// TestDeadDataLooksDead: without the broker times stop and the page says as of when; after a
// reconnection what nobody says again is in doubt until it is forgotten.
func TestDeadDataLooksDead(t *testing.T) {
	extent.Long(t, "a broker that is gone")
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
	extent.Long(t, "many updates")
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
	extent.Long(t, "a TTL")
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
	extent.Long(t, "an outage")
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
	extent.Long(t, "two speeds")
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
