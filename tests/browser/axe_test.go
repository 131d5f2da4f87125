//go:build linux

package browser

import "testing"

// accessible fails the test if axe-core finds something in the page as it is shown now.
func (p *page) accessible(what string) {
	p.Helper()
	var found []string
	p.must("axe", arguments{}, &found)
	for _, f := range found {
		p.Errorf("%s: %s", what, f)
	}
}

// TestAxe: axe-core reports no violation in any view of the board, nor in the demo, light
// and dark.
func TestAxe(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	join(t, s.url, "a-lift-with-a-name-that-is-cut-in-the-tree", "crane")
	s.first.lock("north", 7)
	s.second.waits("north", 9)
	r := startRescue(t, "--robots", "4")
	chromium := startBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		w := window{width: 1440, height: 900, scheme: scheme}
		p := chromium.open(s.board, w)
		p.await("%s?.dataset.holder === 'lift-1'", row("crane", "north"))
		p.await("document.querySelectorAll('.tree .node').length === 4")
		p.await("[...document.querySelectorAll('.tree .node')].map(n => n.ariaLabel).sort().join('; ') === " +
			"'a-lift-wit…n-the-tree, a-lift-with-a-name-that-is-cut-in-the-tree, member, priority 100; " +
			"lift-1 holds north, member, candidate, priority 1; lift-2, member, candidate, priority 2; tower root, priority 0'")
		for _, view := range []string{"#/", "#/lock/crane/north", "#/tree/crane", "#/people", "#/history"} {
			p.eval("location.hash = '"+view+"'", nil)
			p.await("location.hash === '%s' && new Promise(then => requestAnimationFrame(() => requestAnimationFrame(() => then(true))))", view)
			p.accessible("the board, " + scheme + ", " + view)
		}
		r.shown(chromium, w).accessible("the demo, " + scheme)
	}
}
