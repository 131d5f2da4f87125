//go:build linux

package browser

import (
	"testing"

	"padme/tests/extent"
)

// readme is the window of the picture in README.
var readme = window{width: 1440, height: 900, scheme: "light"}

// TestRescueFitsOnAScreen: what happens and what can be done about it is seen at once,
// with the number of robots that the demo has by default.
func TestRescueFitsOnAScreen(t *testing.T) {
	t.Parallel()
	r := startRescue(t)
	p := r.looked(readme)
	p.await("document.querySelectorAll('#robots li').length === 8")
	p.await("Number(document.querySelector('#figure-entries').textContent) > 3")
	for _, part := range []string{"#map", "#frequencies", "#queue", "#timeline", "main > section", "button", "#robots li"} {
		if outside := p.text("[...document.querySelectorAll('" + part + "')].filter(e => e.getBoundingClientRect().bottom > innerHeight || e.getBoundingClientRect().right > innerWidth).length"); outside != "0" {
			t.Errorf("%s of %s cannot be seen without scrolling", outside, part)
		}
	}
	// The legend explains signs, not certain robots, and not by colors alone.
	const signs = "[...document.querySelectorAll('.area .legend .robot')].map(e => e.textContent + getComputedStyle(e, '::after').width).join()"
	if all := p.text(signs); all != "15px,10px,5px,0px" {
		t.Errorf("the pips of the legend are as wide as %s", all)
	}
	for _, w := range []window{{width: 390, height: 780}, {width: 1024, height: 768}, {width: 1280, height: 800}} {
		p.must("size", arguments{"width": w.width, "height": w.height}, nil)
		p.await("document.documentElement.scrollWidth <= innerWidth && document.querySelector('#map').getBoundingClientRect().right <= innerWidth")
		p.await("[...document.querySelectorAll('button, .queue li, .frequency, .who > *')].every(e => e.getBoundingClientRect().right <= innerWidth)")
	}
	r.calm(p)
}

// slides notes each sign that slides.
const slides = `globalThis.slid = [];
	new MutationObserver((all) => { for (const m of all) for (const n of m.addedNodes) if (n.classList?.contains("slides")) slid.push(n.textContent); })
		.observe(document, { childList: true, subtree: true });`

// TestRescueHasOneQueue: a robot that waits for any frequency waits once, and slides to
// the one that it gets, unless the reader wants nothing to move.
func TestRescueHasOneQueue(t *testing.T) {
	extent.Long(t, "two windows")
	t.Parallel()
	r := startRescue(t, "--robots", "6")
	chromium := startBrowser(t)
	p := r.shown(chromium, window{width: 1440, height: 900, scheme: "light", init: slides})
	still := r.shown(chromium, window{width: 1440, height: 900, scheme: "light", motion: "reduce", init: slides})
	p.await("document.querySelectorAll('.queue').length === 1 && document.querySelectorAll('.queue li:not([hidden])').length > 2")
	const twice = `(() => {
		const all = [...document.querySelectorAll(".queue li:not([hidden]) .robot")].map((e) => e.textContent);
		return all.length - new Set(all).size;
	})()`
	for range 20 {
		if n := p.text(twice); n != "0" {
			t.Errorf("%s robots wait twice", n)
		}
	}
	p.await("slid.length > 3 && slid.every(n => /^[1-6]$/.test(n))")
	p.await("document.querySelectorAll('.slides').length === 0") // a slide has an end
	still.await("Number(document.querySelector('#figure-entries').textContent) > 20")
	if n := still.text("slid.length"); n != "0" {
		t.Errorf("%s signs slide where the reader wants nothing to move", n)
	}
	r.calm(p)
}
