//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/address"
	"padme/tests/extent"
	"padme/tests/poll"
	"padme/tests/process"
)

// rescue is the demo with its page, and somebody that reads what is published.
type rescue struct {
	*testing.T
	demo         *process.Process
	page, broker string
	p            *pubsub.Participant

	mu     sync.Mutex
	models map[string]string // in force, as each robot knows
}

var (
	pageLine   = regexp.MustCompile(`(?m)^page at (\S+)( \(open.*)?$`)
	brokerLine = regexp.MustCompile(`(?m)^broker at ([^;]+);`)
)

// startRescue runs the demo until the end of the test.
func startRescue(t *testing.T, args ...string) *rescue {
	t.Helper()
	demo := start(t, "rescue-demo", append([]string{"--web", "127.0.0.1:0", "--duration", "1h"}, args...)...)
	r := &rescue{T: t, demo: demo, models: map[string]string{}}
	poll.Within(t, patience, "the demo says where its page is", func() bool {
		page, broker := pageLine.FindStringSubmatch(demo.Printed()), brokerLine.FindStringSubmatch(demo.Printed())
		if page == nil || broker == nil {
			return false
		}
		r.page, r.broker = page[1], broker[1]
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if r.p, err = pubsub.Join(ctx, r.broker, "judge", pubsub.WithDomain("rescue")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stopped(r.p.Close) })
	if _, err := r.p.SubscribeRaw(ctx, pubsub.Main, []string{"show", "count", "+"}, r.counted); err != nil {
		t.Fatal(err)
	}
	return r
}

func stopped(end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return end(ctx)
}

func (r *rescue) counted(m pubsub.RawMessage) {
	var c struct{ Models string }
	if json.Unmarshal(m.Payload, &c) == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.models[m.Levels[2]] = c.Models
	}
}

// ruledBy reports whether all of so many robots know that these models are in force.
func (r *rescue) ruledBy(models string, robots int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, known := range r.models {
		if known != models {
			return false
		}
	}
	return len(r.models) == robots
}

// calm fails the test if the browser has complained, or the page has asked another
// machine. The broker's listener is on this one.
func (r *rescue) calm(p *page) {
	r.Helper()
	for _, c := range p.complaints() {
		if !strings.HasPrefix(c, "another host: ws://127.0.0.1:") {
			r.Errorf("the browser complains: %s", c)
		}
	}
}

// looked opens the page and returns when it shows the run.
func (r *rescue) looked(w window) *page {
	r.Helper()
	return r.shown(startBrowser(r.T), w)
}

func (r *rescue) shown(b *browser, w window) *page {
	r.Helper()
	p := b.open(r.page, w)
	p.await("document.querySelector('#connection')?.dataset.state === 'connected'")
	p.await("document.querySelectorAll('[data-frequency]').length === 2 && document.querySelector('#root').dataset.root === 'center'")
	return p
}

const robot2 = "document.querySelector('li[data-robot=robot-2]')"

// TestRescuePage: the page lives, without a complaint.
func TestRescuePage(t *testing.T) {
	t.Parallel()
	r := startRescue(t, "--robots", "5")
	p := r.looked(desktop)
	p.await("document.querySelectorAll('#robots li').length === 5")

	// Robots move, and on the map as well.
	at := p.text(robot2 + ".dataset.x")
	p.text("(window.drawn = document.querySelector('#map').toDataURL()).length")
	p.await("%s.dataset.x !== '%s'", robot2, at)
	p.await("document.querySelector('#map').toDataURL() !== window.drawn") // it is drawn with the next frame
	// What the frequency carries is shown.
	p.await("[...document.querySelectorAll('.screen img')].some(i => !i.hidden && i.complete && i.naturalWidth === 64)")
	p.await("Number(document.querySelector('#figure-entries').textContent) > 3 && document.querySelector('#figure-overlaps').textContent === '0'")
	p.await("document.querySelector('#timeline').getAttribute('aria-label').includes('robot')")

	// The models reach every robot.
	p.click("[data-model=Priority][data-value=fair]")
	p.await("document.querySelector('[data-model=Priority][data-value=fair]').getAttribute('aria-pressed') === 'true'")
	p.click("[data-model=Release][data-value=use]")
	poll.Within(t, patience, "the models reach every robot", func() bool { return r.ruledBy("fair-forward-forward-use", 5) })
	p.click("[data-model=Release][data-value=retain]")
	poll.Within(t, patience, "they retain", func() bool { return r.ruledBy("fair-forward-forward-retain", 5) })
	p.await("document.querySelector('#rule').textContent.includes('in turn')")

	// Two clicks in one moment are two changes.
	p.eval("['Priority][data-value=level', 'Request][data-value=replace'].forEach(b => document.querySelector(`[data-model=${b}]`).click())", nil)
	poll.Within(t, patience, "both models reach every robot", func() bool { return r.ruledBy("level-replace-forward-retain", 5) })

	// A page that comes later shows the same phases.
	p.await("rescue.run.phases().length === 3 && rescue.run.figures.phases.length === 3")
	phases := p.text("JSON.stringify(rescue.run.phases().map(f => f.fair))")
	p.eval("globalThis.earlier = true, setTimeout(() => location.reload())", nil)
	p.await("!globalThis.earlier && globalThis.rescue?.run.phases().length === 3")
	if after := p.text("JSON.stringify(rescue.run.phases().map(f => f.fair))"); after != phases || phases != "[false,true,false]" {
		t.Errorf("the phases are %s, and after a reload %s", phases, after)
	}
	r.calm(p)
}

// TestRescueCommands: what is done to a robot shows, by mouse and by keyboard.
func TestRescueCommands(t *testing.T) {
	t.Parallel()
	r := startRescue(t, "--robots", "4", "--processes")
	p := r.looked(desktop)
	p.await("document.querySelectorAll('#robots li').length === 4")
	p.eval("(seen => { window.most = seen; const l = document.querySelector('#answers'); new MutationObserver(() => most.push(l.children.length)).observe(l, {childList: true}) })([])", nil)
	p.eval("const b = document.querySelector('li[data-robot=robot-1] button'); b.click(); b.click()", nil) // a double click
	p.await("document.querySelector('li[data-robot=robot-1]').dataset.paused === 'true' && document.querySelector('#answers').textContent.includes('pause robot-1: done')")
	p.eval("document.querySelectorAll('#robots li:not([data-robot=robot-2]) .acts :nth-child(2)').forEach(b => b.click())", nil)
	p.await("[...document.querySelectorAll('#robots li:not([data-robot=robot-2])')].every(l => l.dataset.cut === 'true')")
	p.eval("document.querySelectorAll('#robots li:not([data-robot=robot-2]) .acts :nth-child(2)').forEach(b => b.click())", nil)
	p.await("[...document.querySelectorAll('#robots li:not([data-robot=robot-2])')].every(l => l.dataset.cut === 'false')")
	if said := p.text("document.querySelector('#answers').textContent"); strings.Contains(said, "✕") {
		t.Errorf("a double click is two commands: %s", said)
	}
	if most := p.text("Math.max(...most.filter((n, i) => n <= most[i + 1] || i === most.length - 1))"); most > "4" {
		t.Errorf("%s answers stand at a time", most)
	}
	p.eval(robot2+".querySelector('button').focus()", nil)
	p.press("Enter")
	p.await("%s.dataset.paused === 'true' && %[1]s.querySelector('button').textContent === 'Resume'", robot2)
	p.await("document.querySelector('#answers').textContent.includes('pause robot-2: done')")
	at := p.text(robot2 + ".dataset.x")
	p.press("Tab")
	p.press("Enter") // the next button cuts its radio
	p.await("%s.dataset.cut === 'true'", robot2)
	p.await("%s.textContent.includes('paused, radio cut')", robot2)
	p.press("Tab")
	p.press("Enter") // and the next one kills it
	p.await("%s.dataset.dead === 'true' && %[1]s.textContent.includes('dead')", robot2)
	p.await("document.querySelector('#timeline').ariaLabel.includes('robot-2 was killed at ')")
	if now := p.text(robot2 + ".dataset.x"); now != at {
		t.Errorf("paused at %s, it is at %s", at, now)
	}
	p.press("Enter") // it is started again
	p.await("%s.dataset.dead === 'false'", robot2)

	// A click on the map is one more survivor, and so is Enter where the arrows aim.
	p.await("document.querySelector('#figure-found').textContent.endsWith('of 30')")
	p.click("#map")
	p.await("document.querySelector('#figure-found').textContent.endsWith('of 31')")
	p.press("ArrowLeft")
	p.press("Shift+ArrowUp")
	p.press("Enter")
	p.await("document.querySelector('#figure-found').textContent.endsWith('of 32')")
	r.calm(p)
}

func TestRescueRootIsKilled(t *testing.T) {
	extent.Long(t, "a new root")
	t.Parallel()
	r := startRescue(t, "--robots", "6")
	p := r.looked(desktop)
	p.await("Number(document.querySelector('#figure-entries').textContent) > 6") // by then they vote
	p.click("#kill-root")
	p.await("/^robot-/.test(document.querySelector('#root').dataset.root)")
	p.await("/robot-\\d became the root at /.test(document.querySelector('#timeline').ariaLabel)")
	before := p.text("document.querySelector('#figure-entries').textContent")
	p.await("Number(document.querySelector('#figure-entries').textContent) > %s + 5", before)
	p.await("document.querySelector('#figure-overlaps').textContent === '0'")
	r.calm(p)
}

func TestRescueBrokerIsStopped(t *testing.T) {
	extent.Long(t, "an outage")
	t.Parallel()
	r := startRescue(t, "--robots", "3")
	p := r.looked(desktop)
	p.await("Number(document.querySelector('#figure-entries').textContent) > 2")
	const top = "document.querySelector('main').getBoundingClientRect().top + scrollY"
	at := p.text(top)
	p.click("#stop-broker")
	p.await("document.querySelector('#connection').dataset.state !== 'connected'")
	p.await("document.querySelector('#notice').textContent.includes('No connection to the broker')")
	// Nothing is said as certain, nothing can be done, and nothing has jumped.
	p.await("document.querySelector('#connection').dataset.state === 'connected' || document.body.dataset.fresh === 'stale'")
	var dead struct {
		Offline                            bool
		Top, Does, Sends, Times, Age, Live string
	}
	p.eval(`(async () => {
		const all = (s) => [...document.querySelectorAll(s)].map(e => e.textContent).join("|");
		const times = () => all(".facts") + all("#clock") + all(".queue");
		const before = times();
		await new Promise(passed => setTimeout(passed, 1500));
		return { offline: document.querySelector("#connection").dataset.state !== "connected", top: String(`+top+`), does: all("#robots .does"),
			sends: all(".holder"), times: String(before === times()), age: document.querySelector("#age").textContent,
			live: String(document.querySelectorAll('.controls button:not([aria-disabled="true"])').length) };
	})()`, &dead)
	if dead.Offline && (dead.Top != at || dead.Does != "not known|not known|not known" || strings.Contains(dead.Sends, "sends") || strings.Contains(dead.Sends, "has it") ||
		dead.Times != "true" || !strings.HasPrefix(dead.Age, "as of ") || dead.Live != "0") {
		t.Errorf("without a broker: %+v; before it the top was at %s", dead, at)
	}
	p.await("document.querySelector('#connection').dataset.state === 'connected' && Number(document.querySelector('#connection').dataset.session) > 1")
	p.await("/no connection from [0-9:]+ to /.test(document.querySelector('#timeline').ariaLabel)")
	before := p.text("document.querySelector('#figure-entries').textContent")
	p.await("Number(document.querySelector('#figure-entries').textContent) > %s + 2", before)
	p.await("document.querySelector('#notice').hidden && document.querySelector('#figure-overlaps').textContent === '0'")
}

// TestRescueHolder: the page shows the holder of the retained state, and what
// compares the two can fail.
func TestRescueHolder(t *testing.T) {
	t.Parallel()
	// Who has a frequency keeps it, in a world in which nothing moves much.
	r := startRescue(t, "--robots", "4", "--transmission", "1m", "--speed", "0.1")
	p := r.looked(desktop)
	p.await("[...document.querySelectorAll('[data-frequency]')].every(c => c.dataset.holder)")
	poll.Within(t, patience, "page and broker agree", func() bool { return len(r.differences(p)) == 0 })
	// It draws no more, so that what is wrong stays so.
	p.eval("new Promise(drawn => { const next = requestAnimationFrame; window.requestAnimationFrame = () => 0; next(drawn) })", nil)
	p.eval("document.querySelector('[data-frequency=\"446.000\"]').dataset.fence = '1'", nil)
	p.eval("document.querySelector('[data-frequency=\"146.520\"] .holder').textContent = 'robot 77 sends'", nil)
	if all := r.differences(p); len(all) != 2 || !strings.Contains(all[0], "robot-77") {
		t.Errorf("a wrong holder and a wrong fence are noticed as %q", all)
	}
}

// differences are the frequencies whose holder or fence is not that of the retained
// state.
func (r *rescue) differences(p *page) (all []string) {
	r.Helper()
	var shown []struct{ Frequency, Holder, Fence string }
	p.eval(`[...document.querySelectorAll('[data-frequency]')].map(c => ({
		frequency: c.dataset.frequency, fence: c.dataset.fence,
		holder: /^robot \d+/.exec(c.querySelector('.holder').textContent)?.[0].replace(' ', '-') ?? '' }))`, &shown)
	states := r.states()
	for _, f := range shown {
		s, ok := states[f.Frequency]
		if !ok || s.Holder != f.Holder || s.Fence != f.Fence {
			all = append(all, fmt.Sprintf("%s: the page has %q with fence %s, the broker %q with fence %s", f.Frequency, f.Holder, f.Fence, s.Holder, s.Fence))
		}
	}
	if len(shown) != len(states) {
		all = append(all, fmt.Sprintf("the page has %d frequencies, the broker %d", len(shown), len(states)))
	}
	return all
}

// states are what the broker retains, by frequency.
func (r *rescue) states() map[string]qosmutex.State {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	all := map[string]qosmutex.State{}
	for s, err := range qosmutex.WatchStates(ctx, r.p, "frequencies") {
		if err != nil {
			r.Fatal(err)
		}
		if all[s.Resource] = s; len(all) == 2 {
			break
		}
	}
	return all
}

// TestRescueOnAPhone: nothing is wider than the screen, and nothing is missing.
func TestRescueOnAPhone(t *testing.T) {
	t.Parallel()
	r := startRescue(t, "--robots", "3")
	p := r.looked(window{width: 390, height: 844, scheme: "dark", scale: 2})
	p.await("document.querySelectorAll('#robots li').length === 3")
	p.await("document.documentElement.scrollWidth <= 390")
	p.await("[...document.querySelectorAll('button')].every(b => b.getBoundingClientRect().width > 30 && b.getBoundingClientRect().right <= 390)")
	r.calm(p)
}

// TestRescueEnds: the page says that the run is over, and goes on with the next one.
func TestRescueEnds(t *testing.T) {
	extent.Long(t, "a whole run")
	t.Parallel()
	addr := address.Free(t)
	chromium := startBrowser(t) // which takes its time
	r := startRescue(t, "--robots", "2", "--duration", "20s", "--web", addr)
	p := r.shown(chromium, desktop)
	p.await("document.querySelector('#notice').textContent.includes('The run is over')")
	if n := p.text("document.querySelector('#figure-overlaps').textContent"); n != "0" {
		t.Errorf("overlaps: %s", n)
	}
	<-r.demo.Done
	startRescue(t, "--robots", "3", "--web", addr)
	p.await("document.querySelector('#connection')?.dataset.state === 'connected' && document.querySelectorAll('#robots li').length === 3")
}

// TestScreenshotsOfRescue makes those of the documents: make screenshots. Without
// -shots it demands only that there is something to see.
func TestScreenshotsOfRescue(t *testing.T) {
	extent.Long(t, "pictures")
	t.Parallel()
	chromium := startBrowser(t) // which takes its time
	r := startRescue(t, "--duration", "40s", "--switch-at", "14s")
	pages := map[string]*page{}
	for name, scheme := range map[string]string{"rescue.png": "light", "rescue-dark.png": "dark"} {
		w := readme
		w.scheme, w.motion = scheme, "reduce" // no sign is on its way across a text
		pages[name] = chromium.open(r.page, w)
	}
	for name, p := range pages {
		if *shots != "" { // what is shown is the same after two seconds, but less of it
			p.await("/^0:(2[7-9]|3)/.test(document.querySelector('#clock').textContent)")
			// Under Fair, who sees little sends while who sees more waits.
			p.await("document.querySelector('.now .robot:is(.c0, .c1):not([hidden])') && document.querySelector('.queue li:not([hidden]) .c3')")
		}
		p.await("[...document.querySelectorAll('.holder')].filter(h => h.textContent.endsWith(' sends')).length === 2")
		p.picture(name)
		r.calm(p)
	}
}

// largest is how many bytes a picture of the run may have: there is more to see than
// on the board.
const largest = 300_000

// picture writes a screenshot for the documents, if they are asked for.
func (p *page) picture(name string) {
	p.Helper()
	if *shots == "" {
		return
	}
	path := filepath.Join(*shots, name)
	p.must("shot", arguments{"path": path}, nil)
	if info, err := os.Stat(path); err != nil {
		p.Error(err)
	} else if info.Size() > largest {
		p.Errorf("%s has %d bytes, want at most %d", path, info.Size(), largest)
	}
}
