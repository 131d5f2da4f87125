//go:build linux

package browser

import (
	"testing"

	"padme/tests/extent"
	"padme/tests/poll"
)

// TestRescueExplains why a robot waits and why it got a frequency, by mouse and by keys.
func TestRescueExplains(t *testing.T) {
	t.Parallel()
	// Who has a frequency keeps it for a while, and there are always some that wait.
	r := startRescue(t, "--robots", "6", "--transmission", "3s")
	p := r.looked(readme)
	poll.Within(t, patience, "one is asked about that waits behind another", func() bool { // others may come and go before the key does
		p.press("Escape")
		p.await("(b => b && (b.focus(), true))(document.querySelectorAll('.queue .why')[1])")
		p.press("Enter")
		p.await("/^Why robot \\d waits$/.test(%s?.querySelector('h2').textContent)", explanation)
		return p.text("/robot \\d is at place \\d of \\d, behind robot \\d: (it |they |nobody )[^]*The latest grant, fence/.test("+explanation+".textContent)") == "true" // at first there was none
	})
	p.accessible("an explanation")
	p.press("Escape")
	p.await("!%s && document.activeElement.closest('.queue')", explanation)

	p.await("rescue.run.bars('146.520', Date.now()).length > 2")
	p.eval("document.querySelector('#timeline').focus()", nil)
	p.press("ArrowLeft")
	p.await("/^robot \\d on 146.520 MHz, fence \\d+$/.test(document.querySelector('#bar').textContent)")
	p.press("ArrowLeft")
	p.press("Enter")
	p.await("/^Why robot \\d got 146.520 MHz$/.test(%s?.querySelector('h2').textContent)", explanation)
	p.await("%s.textContent.includes(', ' + document.querySelector('#bar').textContent.split(', ')[1] + ', ')", explanation)
	p.await("/The grant, fences? .*: to robot \\d, .*(It came first|Nobody else waited|It was at place)/.test(%s.textContent)", explanation)
	p.press("Escape")
	p.await("!%s && document.activeElement.id === 'timeline'", explanation)

	// By mouse, too.
	p.eval(`(() => {
		const canvas = document.querySelector("#timeline"), { run } = rescue, from = run.scene.start;
		const bar = run.bars("446.000", Date.now())[0], middle = (bar.from + bar.end) / 2;
		const x = 104 + (middle - from) / 120_000 * (canvas.clientWidth - 112), box = canvas.getBoundingClientRect();
		window.clicked = bar.robot.replace("-", " ");
		canvas.dispatchEvent(new MouseEvent("click", { clientX: box.left + x, clientY: box.top + 26 + 38 + 19, bubbles: true }));
	})()`, nil)
	p.await("%s?.querySelector('h2').textContent === `Why ${clicked} got 446.000 MHz`", explanation)
	p.press("Escape")

	// The focus of who waits no more goes to the place before, and at last to the list.
	p.await("[...document.querySelectorAll('.queue .why')].at(-1).focus(), true")
	p.eval(`(() => {
		for (const s of rescue.run.locks.states.values()) Object.assign(s, { queue: [], waiting: 0 });
		rescue.run.apply = () => null; // nothing comes after that
	})()`, nil)
	p.await("!document.querySelector('.queue li') && document.activeElement.matches('.queue')")
	r.calm(p)
}

// TestExplanationFits on a phone, and can be read in each light.
func TestExplanationFits(t *testing.T) {
	extent.Long(t, "each light")
	t.Parallel()
	s := startSite(t)
	s.first.lock("north", 7)
	s.second.waits("north", 9)
	r := startRescue(t, "--robots", "5", "--transmission", "3s")
	chromium := startBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		for size, w := range map[string]window{"a desk": desktop, "a phone": phone} {
			w.scheme = scheme
			board := chromium.open(s.board+"#/lock/crane/north", w)
			demo := r.shown(chromium, w)
			for what, p := range map[string]*page{"#detail tbody .why": board, "#detail #holder": board, "#history .why, #detail .why": board, ".queue .why": demo} {
				p.await("document.querySelector('%s').click(), true", what)
				p.await("%s", explanation)
				p.await("document.documentElement.scrollWidth <= innerWidth && %s.scrollWidth <= %[1]s.clientWidth && %[1]s.getBoundingClientRect().bottom <= innerHeight", explanation)
				p.accessible("the explanation of " + what + ", " + scheme + ", on " + size)
				p.press("Escape")
				p.await("!%s", explanation)
			}
		}
	}
}
