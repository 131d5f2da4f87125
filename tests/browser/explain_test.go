//go:build linux

package browser

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"padme/qosmutex"
	"padme/tests/extent"
	"padme/tests/poll"
)

// explanation is what the page explains, as text.
const explanation = "document.querySelector('dialog.explanation[open]')"

// why is what "lock why" prints of a resource.
func (s *site) why(resource string, fence ...string) string {
	out, err := exec.Command(filepath.Join(bin, "pubsub-node"), append([]string{"--broker", s.url, "lock", "why", resource}, fence...)...).CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// reasons are the last cells of the rows of a table, as the page or "lock why" has it.
func reasons(printed string) (all []string) {
	for _, m := range regexp.MustCompile(`(?m)^  \d+ +(\S+) +\d+ +\d+ *(.*)$`).FindAllStringSubmatch(printed, -1) {
		all = append(all, m[1]+": "+strings.TrimSpace(m[2]))
	}
	return all
}

// TestBoardExplains who got a lock, and why the others wait where they do, with what "lock
// why" prints, by mouse and by keys.
func TestBoardExplains(t *testing.T) {
	t.Parallel()
	s := startSite(t)
	third := join(t, s.url, "lift-3", "crane")
	p := startBrowser(t).open(s.board+"#/lock/crane/north", desktop)
	p.await("%s?.dataset.state === 'free'", row("crane", "north"))
	held := s.first.lock("north", 7)
	s.second.waits("north", 9)
	p.await("document.querySelectorAll('#detail tbody tr').length === 1")
	third.waits("north", 8)
	p.await("document.querySelectorAll('#detail tbody tr').length === 2")

	// Who waits, by keys; the focus is where it was after that.
	poll.Within(t, patience, "the second is told to wait behind the third", func() bool { return strings.Contains(s.why("crane/north"), "it is less important") })
	p.eval("document.querySelectorAll('#detail tbody .why')[1].focus(); window.asked = document.activeElement; 0", nil)
	p.press("Enter")
	p.await("%s?.querySelector('h2').textContent === 'Why lift-2 waits for crane north'", explanation)
	p.await("%s.textContent.includes('lift-2 is at place 2 of 2, behind lift-3: it is less important.')", explanation)
	p.await("%s.querySelector('tr[aria-current] td:nth-child(2)').textContent === 'lift-2'", explanation)
	cells := `[...[...` + explanation + `.querySelectorAll('table')].at(%d).tBodies[0].rows].map(r => r.cells[1].textContent + ': ' + r.cells[4].textContent).join('\n')`
	if page, printed := p.text(fmt.Sprintf(cells, 0)), strings.Join(reasons(s.why("crane/north")), "\n"); page != printed {
		t.Errorf("the page says\n%s\nand lock why\n%s", page, printed)
	}
	p.accessible("an explanation")
	p.press("Escape")
	p.await("!%s && document.activeElement === asked && location.hash === '#/lock/crane/north'", explanation)

	// Who holds it, by mouse. It was alone when it asked.
	p.click("#detail [data-why=holder] dt")
	p.await("%s?.textContent.includes('lift-1 entered at ')", explanation)
	p.await("%s.textContent.includes(', fence %d, in its turn.') && %[1]s.textContent.includes('Nobody else waited.')", explanation, held.Fence())
	p.press("Escape")

	// The history knows the decisions that were seen, each with who waited then.
	p.eval("asked.focus()", nil)
	s.first.unlock(held)
	p.await("document.querySelector('#holder')?.textContent === 'lift-3' && document.querySelectorAll('#history .why').length === 2")
	p.await("document.querySelectorAll('#detail tbody tr').length === 1 && document.activeElement === asked && asked.isConnected") // still lift-2
	p.await("document.querySelectorAll('#history .why[tabindex=\"0\"]').length === 1")
	p.eval("document.querySelector('#history .why[tabindex=\"0\"]').focus()", nil)
	p.press("Home")
	p.press("Enter")
	p.await("%s?.querySelector('h2').textContent === 'Why lift-3 got crane north'", explanation)
	printed := s.why("crane/north")
	how := regexp.MustCompile(`: to lift-3, (.*)\. It came first of 2 \(models (.*)\):`).FindStringSubmatch(printed)
	if how == nil {
		t.Fatalf("lock why printed %s", printed)
	}
	p.await("%s.textContent.includes('to lift-3, %s. It came first of 2 (models %s).')", explanation, how[1], how[2])
	if page, want := p.text(fmt.Sprintf(cells, 0)), "lift-3: \nlift-2: it is less important"; page != want || !strings.Contains(printed, "it is less important") {
		t.Errorf("the page says\n%s\nand lock why\n%s", page, printed)
	}
	p.click(".explanation button")
	p.await("!%s", explanation)
	p.press("End")
	p.press("Enter")
	p.await("%s?.querySelector('h2').textContent === 'Why lift-1 got crane north' && %[1]s.textContent.includes('Nobody else waited.')", explanation)
	p.press("Escape")

	// Who selects text wants no explanation.
	var asks bool
	p.eval(`(() => {
		const who = document.querySelector("#history [data-why] .who");
		getSelection().selectAllChildren(who);
		who.click();
		return !!`+explanation+`;
	})()`, &asks)
	if asks {
		t.Error("a selection in the history is explained")
	}

	// What has come to no page is not known, and the page says from when on it knows.
	p.eval(`(() => {
		const e = { ...board.history.newest().find(e => e.event === "granted"), fence: "1" };
		board.history.add(Array(300).fill(e), Date.now());
		document.querySelector("#search").dispatchEvent(new Event("input"));
	})()`, nil)
	p.await("document.querySelectorAll('#history .why').length === 200 && document.activeElement.closest('#history li') === document.querySelector('#history').lastChild")
	p.eval("document.querySelector('#history .why').click()", nil)
	p.await("%s?.textContent.includes('Why is no longer known: this page has decisions about this lock since ')", explanation)
	p.quiet()
}

// TestPassingIsExplained: who enters while the token passes is not whom it was given to, and
// the page says both.
func TestPassingIsExplained(t *testing.T) {
	extent.Long(t, "a chain")
	t.Parallel()
	url := startEmbedded(t, "127.0.0.1:0", "").URL()
	models, err := qosmutex.ParseModels("level-forward-use-use")
	if err != nil {
		t.Fatal(err)
	}
	tower := join(t, url, "tower", "crane", qosmutex.Create(), qosmutex.WithResources("east"), qosmutex.WithModels(models), qosmutex.WithFanout(1))
	chain := []*member{tower}
	for i, name := range []string{"lift-1", "lift-2", "lift-3"} {
		chain = append(chain, join(t, url, name, "crane", qosmutex.WithNodePriority(int64(i+1)), qosmutex.WithFanout(1)))
	}
	p := startBrowser(t).open(startUI(t, url)+"#/lock/crane/east", desktop)
	p.await("%s", row("crane", "east"))
	end := keepBusy(t, chain)
	p.await("board.history.newest().some(e => e.how === 'passing')")
	end()
	const passing = `[...document.querySelectorAll("#history li")].find(l => l.dataset.at === String(board.history.newest().findLast(e => e.how === "passing").at))`
	p.await("%s", passing)
	who := p.text(passing + ".querySelector('.who').textContent")
	p.await("%s.querySelector('.why').click(), true", passing)
	p.await("%s.textContent.includes('%s entered at ')", explanation, who)
	p.await("%s.textContent.includes('out of turn, while the token passed it on the way to another (Use).')", explanation)
	p.await("/The grant, fences? [^:]*:\\d+:\\d+: to lift-\\d, in its turn/.test(%s.textContent)", explanation)
	if p.text("/: to "+who+", in its turn/.test("+explanation+".textContent)") == "true" {
		t.Errorf("the page says that the token was given to %s: %s", who, p.text(explanation+".textContent"))
	}
	p.quiet()
}
