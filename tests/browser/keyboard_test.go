//go:build linux

package browser

import (
	"testing"

	"padme/tests/extent"
)

// walk presses Tab until the page is left, and the arrows where a part of the page is one
// stop with several elements. It fails the test if something that a pointer can use is
// never reached, or does not show that it is.
func (p *page) walk(what string) {
	p.Helper()
	p.eval(`(() => {
		const usable = "a[href], button:enabled, input:enabled, select:enabled, summary, [tabindex], [role=button]";
		const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && e.getClientRects().length > 0;
		const name = (e) => e.tagName.toLowerCase() + (e.id && "#" + e.id) + " " + (e.ariaLabel || e.textContent || e.title).trim().replace(/\s+/g, " ").slice(0, 60);
		const look = (e) => [e, e.nextElementSibling, ...e.querySelectorAll("*")].filter(Boolean).map((part) => {
			const s = getComputedStyle(part);
			return [s.outlineStyle, s.stroke, s.strokeWidth].join();
		}).join(";");
		window.walk = {
			wanted: new Set([...document.querySelectorAll("*")].filter((e) => shown(e) &&
				(e.matches(usable) || getComputedStyle(e).cursor === "pointer" && !e.closest(usable)))),
			dark: new Set(),
			looks: new Map(),
			here() {
				const e = document.activeElement;
				if (!e || e === document.body) return "";
				if (this.looks.get(e) === look(e)) this.dark.add(name(e));
				this.wanted.delete(e);
				return this.names.get(e) ?? (this.names.set(e, String(this.names.size + 1)), this.names.get(e));
			},
			names: new Map(),
			missed() { return [...this.wanted].filter((e) => e.isConnected).map(name).join("; "); },
		};
		document.activeElement?.blur();
		for (const e of walk.wanted) walk.looks.set(e, look(e));
	})()`, nil)
	for n := range 100 {
		p.press("Tab")
		stop := p.text("walk.here()")
		if stop == "" && n == 0 { // the walk before has left the page, and this key came back to it
			continue
		}
		if stop == "" {
			break
		}
		p.eval(`walk.search = document.activeElement.type === "search" && document.activeElement`, nil)
		for _, key := range []string{"ArrowDown", "ArrowUp"} {
			for seen := map[string]bool{stop: true}; ; { // the last of some leads to the first
				p.press(key)
				next := p.text("walk.here()")
				if next == "" || seen[next] {
					break
				}
				seen[next] = true
			}
		}
		p.eval("walk.search && walk.search.focus()", nil) // from where an arrow leads to the list, past what a Tab leads to
	}
	if missed := p.text("walk.missed()"); missed != "" {
		p.Errorf("%s: no key leads to %s", what, missed)
	}
	if dark := p.text("[...walk.dark].join('; ')"); dark != "" {
		p.Errorf("%s: nothing shows where the keys are at %s", what, dark)
	}
}

// TestKeyboard: whatever a pointer can use is reached by keys, and shown when it is.
func TestKeyboard(t *testing.T) {
	extent.Long(t, "every control")
	t.Parallel()
	s := startSite(t)
	s.first.lock("north", 7)
	s.second.waits("north", 9)
	r := startRescue(t, "--robots", "4")
	_, replay := startReady(t, "pubsub-node", "ui", "--web", "127.0.0.1:0", "--replay", recorded(t))
	chromium := startBrowser(t)
	board := chromium.open(s.board, desktop)
	board.await("%s?.dataset.holder === 'lift-1' && document.querySelectorAll('.tree .node').length === 3", row("crane", "north"))
	recording := chromium.open(replay+"?at=1e9", desktop)
	recording.await("document.querySelectorAll('#history li').length > 0")
	for what, p := range map[string]*page{"the board": board, "a recording": recording} {
		p.detailLeavesWithItsView()
		p.eachView(func(view string) { p.walk(what + ", " + view) })
	}
	r.shown(chromium, desktop).walk("the demo")
}

// detailLeavesWithItsView: keys must not lead to what was shown before the page was drawn again.
func (p *page) detailLeavesWithItsView() {
	p.Helper()
	p.eval("location.hash = '#/lock/crane/north'", nil)
	p.await("document.querySelector('#detail .back')?.checkVisibility()")
	var shown bool
	p.eval(`new Promise((then) => {
		addEventListener("hashchange", () => then(document.querySelector("#detail").checkVisibility()), { once: true });
		location.hash = "#/tree/crane";
	})`, &shown)
	if shown {
		p.Error("the page of the tree shows a lock until it is drawn")
	}
}
