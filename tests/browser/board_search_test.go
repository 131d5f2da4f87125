//go:build linux

package browser

import (
	"fmt"
	"testing"

	"padme/qosmutex"
	"padme/tests/extent"
)

// TestSearchSaysWhatItDoesNotSee: only the first of a queue are published, so a search says of
// how many it knows nothing; and where it is not shown it leaves nothing out.
func TestSearchSaysWhatItDoesNotSee(t *testing.T) {
	extent.NotShort(t, "a browser")
	t.Parallel()
	url := startEmbedded(t, "127.0.0.1:0", "").URL()
	first := join(t, url, "robot-1", "crane", qosmutex.Create(), qosmutex.WithResources("north"))
	second := join(t, url, "robot-6", "crane")
	board := startUI(t, url)
	p := startBrowser(t).open(board, window{width: 390, height: 780, scheme: "light"})
	search := func(text string) {
		p.eval(fmt.Sprintf(`(s => { s.value = %q; s.dispatchEvent(new Event("input")); })(document.querySelector("#search"))`, text), nil)
	}
	p.await("%s", row("crane", "north"))
	for range 3 {
		first.unlock(first.lock("north", 1))
		second.unlock(second.lock("north", 1))
	}
	held := first.lock("north", 1)
	p.await("%s?.dataset.state === 'held'", row("crane", "north"))
	search("robot-1")
	p.await("document.querySelector('.row:not([hidden])') && document.querySelector('#unnamed').hidden")

	// A lock has its whole history, whatever was searched before.
	p.eval("location.hash = '#/lock/crane/north'", nil)
	p.await("(globalThis.since ??= performance.now()) < performance.now() - 1000") // it is drawn
	p.await("!document.querySelector('#search').checkVisibility() && /robot-6/.test(document.querySelector('#history').textContent)")

	// A participant that is picked in the tree is shown where a search shows.
	p.eval("location.hash = '#/tree/crane'", nil)
	p.await("document.querySelector('[data-view=tree] svg [data-id]')")
	p.eval("document.querySelector('[data-view=tree] svg [data-id=robot-6]').dispatchEvent(new MouseEvent('click', {bubbles: true}))", nil)
	p.await("location.hash === '#/people' && document.querySelectorAll('#people li:not([hidden])').length === 1")

	p.eval("location.hash = '#/locks'", nil)
	for i := range 18 {
		second.waits("north", int64(2+i))
	}
	p.await("board.locks.states.values().next().value?.waiting === 18")
	search("robot-7")
	p.await("document.querySelector('#empty').textContent === 'No lock matches.' && document.querySelector('#unnamed').checkVisibility()")
	p.await("document.querySelector('#unnamed').textContent.startsWith('2 more requests wait behind the first 16 of a lock')")
	search("")
	p.await("document.querySelector('#unnamed').hidden")
	first.unlock(held)
	p.quiet()
}
