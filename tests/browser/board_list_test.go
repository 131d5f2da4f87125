//go:build linux

package browser

import (
	"fmt"
	"testing"

	"padme/qosmutex"
	"padme/tests/extent"
)

// TestBoardRowsHaveRoom: no sign of a state is drawn over the name beside it, and names
// are cut only where there is no room.
func TestBoardRowsHaveRoom(t *testing.T) {
	extent.Long(t, "many windows")
	t.Parallel()
	const name = "conveyor-7-of-hall-12"
	url := startEmbedded(t, "127.0.0.1:0", "").URL()
	join(t, url, "north-gantry-3", name, qosmutex.Create(), qosmutex.WithResources("default")).lock("default", 1)
	board := startUI(t, url)
	chromium := startBrowser(t)
	cut := func(part string) string {
		return fmt.Sprintf("(e => e.scrollWidth > e.clientWidth)(%s.querySelector('.%s'))", row(name, "default"), part)
	}
	for _, w := range []window{{width: 1440, height: 860}, {width: 1280, height: 800}, {width: 1000, height: 800}, {width: 390, height: 780}} {
		w.scheme = "light"
		p := chromium.open(board, w)
		p.await("%s?.dataset.state === 'held'", row(name, "default"))
		p.await("document.querySelector('.row .name').getBoundingClientRect().width > 0") // the list is shown
		for _, state := range []string{"granted", "unknown", "granted?", "unknown?"} {
			// In one go: the page may draw the row again.
			room := p.text(fmt.Sprintf(`(([mark, name]) => {
				mark.textContent = %q;
				return mark.scrollWidth > mark.clientWidth ? "cut" : name.getBoundingClientRect().left - mark.getBoundingClientRect().right;
			})(document.querySelectorAll(".row .mark, .row .name"))`, state))
			if room == "cut" || room[0] == '-' {
				t.Errorf("at a width of %d, there is no room for %s before the name: %s", w.width, state, room)
			}
		}
		for _, part := range []string{"name", "holder"} {
			if p.text(cut(part)) == "true" && w.width != 1280 {
				t.Errorf("at a width of %d, the %s is cut", w.width, part)
			}
		}
		if p.text("document.querySelector('.row .fence').title === 'fence ' + document.querySelector('.row').dataset.fence") != "true" {
			t.Error("the whole fence is not in the title")
		}
		p.quiet()
	}
}
