//go:build linux

package browser

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"padme/tests/extent"
	"padme/tests/poll"
)

const (
	noTour   = "!document.querySelector('#tour') && document.querySelector('#tour-ring').hidden"
	tourDone = "document.querySelector('#tour-says').textContent.startsWith('✓')"
	// tourCovers is whether the card hides a part of what the ring is around.
	tourCovers = `((a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
		(document.querySelector("#tour").getBoundingClientRect(), document.querySelector("#tour-ring").getBoundingClientRect())`
	// places are where everything is but what lies over the page.
	places = `JSON.stringify([...document.querySelectorAll("header, main > section, #robots li, canvas")].map((e) => {
		const { left, top, width, height } = e.getBoundingClientRect();
		return [left + scrollX, top + scrollY, width, height].map(Math.round);
	}))`
)

// moved reports whether anything of places is elsewhere, by more than a fraction of a pixel
// that is rounded.
func moved(t *testing.T, before, after string) bool {
	t.Helper()
	var was, is [][]int
	if err := errors.Join(json.Unmarshal([]byte(before), &was), json.Unmarshal([]byte(after), &is)); err != nil {
		t.Fatal(err)
	}
	return !slices.EqualFunc(was, is, func(a, b []int) bool {
		return slices.EqualFunc(a, b, func(x, y int) bool { return x-y <= 1 && y-x <= 1 })
	})
}

// tourAt waits until the tour is at a step.
func (p *page) tourAt(step int, title string) {
	p.Helper()
	p.await("document.querySelector('#tour-title')?.textContent === '%d of 5: %s'", step, title)
}

var tourSteps = []string{"A lock", "A priority", "A shadow", "The root is killed", "Fair"}

// TestRescueTour goes through all steps by keys alone. Each sees the real event; nothing in
// the page moves, and the card covers nothing of what it is about.
func TestRescueTour(t *testing.T) {
	t.Parallel()
	r := startRescue(t, "--robots", "6")
	p := r.looked(readme)
	p.await("document.querySelectorAll('#robots li').length === 6")
	p.await("document.querySelector('#tour-button').textContent === 'Take the tour' && " + noTour)
	p.await("Number(document.querySelector('#figure-entries').textContent) > 6") // by then they vote
	before := p.text(places)
	p.press("Tab") // the first stop of the page
	p.await("document.activeElement.id === 'tour-button'")
	p.press("Enter")
	for i, title := range tourSteps {
		p.tourAt(i+1, title)
		p.await("document.querySelector('#tour').contains(document.activeElement)")
		p.await("!document.querySelector('#tour-ring').hidden")
		if p.text(tourCovers) == "true" && title != "A shadow" { // whose ring follows a robot that moves meanwhile
			t.Errorf("the card covers what %q is about", title)
		}
		poll.Within(t, patience, title+" is seen", func() bool { // who is to lose a frequency may have given it back
			p.eval("!document.querySelector('#tour-act').hidden && document.querySelector('#tour-act').focus()", nil)
			if p.text("document.activeElement.id") == "tour-act" {
				p.press("Enter")
			}
			return p.reaches(patience/10, tourDone) == nil
		})
		if after := p.text(places); moved(t, before, after) {
			t.Errorf("at %q the page has moved:\n%s\nbefore it was\n%s", title, after, before)
		}
		p.accessible("the tour, " + title)
		p.eval("document.querySelector('#tour-next').focus()", nil)
		p.press("Enter")
	}
	p.await("document.activeElement.id === 'tour-button' && " + noTour)
	p.await("[...document.querySelectorAll('#robots li')].every(l => l.dataset.cut === 'false')") // what the tour had cut
	if n := p.text("document.querySelector('#figure-overlaps').textContent"); n != "0" {
		t.Errorf("%s overlaps", n)
	}
	p.eval("globalThis.earlier = true, setTimeout(() => location.reload())", nil)
	p.await("!globalThis.earlier && globalThis.rescue?.run.scene && document.querySelector('#tour-button').textContent === 'Tour' && " + noTour)
	r.calm(p)
}

// TestRescueTourFits in each light, on a desk and on a phone, and ends at any moment.
func TestRescueTourFits(t *testing.T) {
	extent.Long(t, "each light")
	t.Parallel()
	r := startRescue(t, "--robots", "6")
	chromium := startBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		for size, w := range map[string]window{"a desk": readme, "a phone": phone} {
			w.scheme, w.motion = scheme, "reduce"
			p := r.shown(chromium, w)
			p.click("#tour-button")
			for i, title := range tourSteps {
				p.tourAt(i+1, title)
				p.await("!document.querySelector('#tour-ring').hidden && getComputedStyle(document.querySelector('#tour-ring')).animationName === 'none'")
				p.await("document.documentElement.scrollWidth <= innerWidth")
				p.await(`(c => c.left >= 0 && c.top >= 0 && c.right <= innerWidth && c.bottom <= innerHeight)(document.querySelector("#tour").getBoundingClientRect())`)
				p.await(`(c => c.top < innerHeight && c.bottom > 0)(document.querySelector("#tour-ring").getBoundingClientRect())`)
				p.accessible(fmt.Sprintf("the tour, %s, %s, on %s", title, scheme, size))
				if i == 1 { // it is at the same step after a reload
					p.eval("globalThis.earlier = true, setTimeout(() => location.reload())", nil)
					p.await("!globalThis.earlier && globalThis.rescue?.run.scene")
					p.tourAt(2, title)
				}
				if i+1 < len(tourSteps) {
					p.click("#tour-next") // nothing has to happen first
				}
			}
			p.press("Escape")
			p.await(noTour)
			p.click("#tour-button") // it begins again, and the button ends it, too
			p.tourAt(1, tourSteps[0])
			p.click("#tour-button")
			p.await(noTour)
			r.calm(p)
		}
	}
}

// TestRescueTourWithoutARun says why nothing happens, and offers no button that cannot work.
func TestRescueTourWithoutARun(t *testing.T) {
	extent.Long(t, "a whole run")
	t.Parallel()
	chromium := startBrowser(t)
	r := startRescue(t, "--robots", "2", "--duration", "15s", "--stay")
	p := r.shown(chromium, desktop)
	p.await("document.querySelector('#notice').textContent.includes('The run is over')")
	p.click("#tour-button")
	for i, title := range tourSteps {
		p.tourAt(i+1, title)
		p.await("document.querySelector('#tour-says').textContent.startsWith('The run is over') && document.querySelector('#tour-act').hidden")
		p.click("#tour-next")
	}
	p.await(noTour)
	r.calm(p)
}

// TestRescueTourOnlyLooks: a page without controls waits for what happens by itself.
func TestRescueTourOnlyLooks(t *testing.T) {
	extent.Long(t, "another page")
	t.Parallel()
	r := startRescue(t, "--robots", "4", "--web", "0.0.0.0:0")
	p := startBrowser(t).open(r.page, desktop)
	p.await("document.querySelector('#root').dataset.root === 'center' && !document.querySelector('#no-controls').hidden")
	p.click("#tour-button")
	for i, title := range tourSteps {
		p.tourAt(i+1, title)
		p.await("document.querySelector('#tour-says').textContent && document.querySelector('#tour-act').hidden && !document.querySelector('#tour-ring').hidden")
		p.click("#tour-next")
	}
	r.calm(p)
}
