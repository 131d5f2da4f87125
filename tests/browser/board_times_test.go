//go:build linux

package browser

import (
	"fmt"
	"testing"

	"padme/qosmutex"
	"padme/tests/extent"
)

// TestBoardSortsByTimes: rows are in the order of what is chosen, a lock that is held for longer
// than it mostly is has a mark and can be filtered for, and its page says what is usual.
func TestBoardSortsByTimes(t *testing.T) {
	extent.NotShort(t, "a browser, for six seconds")
	t.Parallel()
	url := startEmbedded(t, "127.0.0.1:0", "").URL()
	robot := join(t, url, "robot-1", "crane", qosmutex.Create(), qosmutex.WithResources("north", "south", "west"))
	p := startBrowser(t).open(startUI(t, url), window{width: 1280, height: 800, scheme: "light"})
	choose := func(selector, value string) {
		p.eval(fmt.Sprintf(`(s => { s.value = %q; s.dispatchEvent(new Event("change", {bubbles: true})); })(document.querySelector(%q))`, value, selector), nil)
	}
	const order = "[...document.querySelectorAll('.row')].filter(r => r.checkVisibility()).map(r => r.dataset.resource).join()"
	p.await("%s === 'north,south,west'", order)
	for range 12 {
		robot.unlock(robot.lock("south", 1))
	}
	p.await("board.history.times('crane', 'south').holding.n === 12")
	first := robot.lock("south", 1)
	second := robot.lock("west", 1)

	choose("#sort", "for")
	p.await("%s === 'south,west,north'", order)
	p.eval("document.querySelector('.row[data-resource=west]').focus()", nil)
	p.await("document.querySelector('.row[data-resource=south]').matches('[data-long]')")
	p.click("#which input[value=long]")
	p.await("%s === 'south' && document.querySelector('#n-long').textContent === '1'", order)
	p.shot("board-times.png")
	p.eval("location.hash = '#/lock/crane/south'", nil)
	p.await("%s", `/held, 50 % \/ 99 %[\d.]+ms \/ [\d.]+ms/.test(document.querySelector('#detail').textContent)`)
	robot.unlock(first)
	p.await("document.querySelector('#empty').textContent === 'No lock matches.' && document.querySelector('#empty').checkVisibility()")
	p.click("#which input[value=all]")
	choose("#sort", "held") // of which there is one, as long as that of all others
	p.await("%s === 'south,north,west' && document.querySelector('.row[data-resource=south] .spent').checkVisibility()", order)
	robot.unlock(second)
	p.shot("board-times-held.png")
	p.accessible("sorted by time")
	p.quiet()
}
