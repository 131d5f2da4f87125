//go:build linux

package browser

import (
	"testing"

	"padme/tests/extent"
)

// accessible fails the test if axe-core finds something in the page as it is shown now.
func (p *page) accessible(what string) {
	p.Helper()
	var found []string
	p.must("axe", arguments{}, &found)
	for _, f := range found {
		p.Errorf("%s: %s", what, f)
	}
}

// phone is a window like that of most.
var phone = window{width: 390, height: 844}

// TestAxe: axe-core reports no violation in any view of the board, of a broker or of a
// recording, nor in the demo, light and dark, on a desk and on a phone.
func TestAxe(t *testing.T) {
	extent.Long(t, "each page in each light")
	t.Parallel()
	s := startSite(t)
	join(t, s.url, "a-lift-with-a-name-that-is-cut-in-the-tree", "crane")
	s.first.lock("north", 7)
	s.second.waits("north", 9)
	r := startRescue(t, "--robots", "4")
	_, replay := startReady(t, "pubsub-node", "ui", "--web", "127.0.0.1:0", "--replay", recorded(t))
	chromium := startBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		for size, w := range map[string]window{"a desk": desktop, "a phone": phone} {
			w.scheme = scheme
			p := chromium.open(s.board, w)
			p.await("%s?.dataset.holder === 'lift-1'", row("crane", "north"))
			p.await("document.querySelectorAll('.tree .node').length === 4")
			p.await("[...document.querySelectorAll('.tree .node')].map(n => n.ariaLabel).sort().join('; ') === " +
				"'a-lift-wit…n-the-tree, a-lift-with-a-name-that-is-cut-in-the-tree, member, priority 100; " +
				"lift-1 holds north, member, candidate, priority 1; lift-2, member, candidate, priority 2; tower root, priority 0'")
			p.viewsAreAccessible("the board, " + scheme + ", on " + size)
			p = chromium.open(replay+"?at=1e9", w)
			p.await("document.querySelectorAll('#history li').length > 0")
			p.viewsAreAccessible("a recording, " + scheme + ", on " + size)
			demo := r.shown(chromium, w)
			demo.accessible("the demo, " + scheme + ", on " + size)
			for what, p := range map[string]*page{"the board": p, "the demo": demo} {
				p.eval("document.documentElement.dataset.fresh = 'stale'", nil) // as the page does where it has no answer
				p.accessible("what is old on " + what + ", " + scheme + ", on " + size)
			}
		}
	}
}

func (p *page) viewsAreAccessible(what string) {
	p.Helper()
	p.eachView(func(view string) { p.accessible(what + ", " + view) })
}

// eachView shows all views of the board, one after the other.
func (p *page) eachView(look func(view string)) {
	p.Helper()
	for _, view := range []string{"#/", "#/lock/crane/north", "#/tree/crane", "#/people", "#/history"} {
		p.eval("location.hash = '"+view+"'", nil)
		p.await("location.hash === '%s' && new Promise(then => requestAnimationFrame(() => requestAnimationFrame(() => then(true))))", view)
		look(view)
	}
}
