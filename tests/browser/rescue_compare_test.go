//go:build linux

package browser

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"padme/tests/extent"
	"padme/tests/poll"
)

// comparisonSays is what the page of two runs says: the table, the figures of each run, and how
// many entries each timeline has.
const comparisonSays = `JSON.stringify([document.querySelector("#differences").textContent, ...[...document.querySelectorAll("#sides > section")].map((s) => s.textContent),
	...comparison.runs.map((r) => r.scene.frequencies.map((f) => r.bars(f, r.told).length).join())])`

// TestRescueCompare: two runs under one clock, and the same again from their recordings.
func TestRescueCompare(t *testing.T) {
	extent.Long(t, "a whole run")
	t.Parallel()
	dir := t.TempDir()
	files := filepath.Join(dir, "level.padme") + "," + filepath.Join(dir, "fair.padme")
	chromium := startBrowser(t) // which takes its time
	r := startRescue(t, "--robots", "5", "--duration", "25s", "--compare", "fair", "--record", files, "--stay")
	p := chromium.open(r.page, readme)
	p.await("document.querySelector('#connection')?.dataset.state === 'connected' && document.querySelectorAll('#sides canvas').length === 2")
	p.await("[...document.querySelectorAll('#sides h2')].map(h => h.innerText.split(/\\s+/)[2]).join() === 'level-forward-forward-forward,fair-forward-forward-forward'")
	p.await("comparison.runs[0].scene.start === comparison.runs[1].scene.start")
	p.await("comparison.runs.every(r => r.figures.entries > 2 && r.phases().length === 1) && comparison.runs.map(r => r.phases()[0].fair).join() === 'false,true'")
	p.await("[...document.querySelectorAll('#sides canvas')].every(c => c.ariaLabel.includes('robot'))")
	p.await("/^[1-9]/.test(document.querySelector('#differences tbody tr:last-child td span').textContent)")
	p.accessible("two runs, light")
	p.await("document.querySelector('#notice').textContent.includes('The runs are over') && comparison.runs.every(r => r.scene.over)")
	p.await("%s.includes('-')", comparisonSays)
	want := p.text(comparisonSays)
	if strings.Contains(want, "undefined") || strings.Contains(want, "NaN") {
		t.Error(want)
	}
	r.calm(p)

	quoted, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	replay := start(t, "rescue-demo", "--replay", files, "--web", "127.0.0.1:0")
	poll.Within(t, patience, "it says where its page is", func() bool { return pageLine.MatchString(replay.Printed()) })
	address := pageLine.FindStringSubmatch(replay.Printed())[1]
	for _, w := range []window{{width: 1440, height: 900, scheme: "dark"}, {width: phone.width, height: phone.height, scheme: "light"}} {
		p := chromium.open(address, w)
		p.await("comparison.player?.playing && comparison.runs.every(r => r.scene)")
		p.click("#play")
		p.await("!comparison.player.playing && document.querySelector('#play').textContent === 'play'")
		p.eval("document.querySelector('#moment').focus()", nil)
		p.press("End") // by the keyboard
		p.await("comparison.player.at === comparison.player.recording.length && comparison.runs.every(r => r.scene.over)")
		p.await("%s === %s", comparisonSays, quoted)
		p.accessible("two recordings")
		p.press("Home")
		p.await("comparison.player.at === 0 && comparison.runs.every(r => !(r.figures?.entries > 0))")
		p.await("%s !== %s", comparisonSays, quoted)
		p.await("document.documentElement.scrollWidth <= innerWidth")
		p.walk("two recordings")
		p.quiet()
	}
}
