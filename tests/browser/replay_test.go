//go:build linux

package browser

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"padme/tests/extent"
	"padme/tests/poll"
)

// recorded is a recording of two entries to a lock, one after the other.
func recorded(t *testing.T) (file string) {
	t.Helper()
	s := startSite(t)
	file = filepath.Join(t.TempDir(), "shift.padme")
	r := start(t, "pubsub-node", "record", "--broker", s.url, file)
	poll.Within(t, patience, "it records", func() bool { return strings.Contains(r.Printed(), "recording") })
	for _, m := range []*member{s.first, s.second} {
		h := m.lock("north", 7)
		poll.Within(t, patience, "the entry is recorded", func() bool { return strings.Contains(lines(t, file), `\"holder\":\"`+m.p.ID()+`\"`) })
		m.unlock(h)
	}
	poll.Within(t, patience, "the end is recorded", func() bool {
		states := strings.Split(lines(t, file), `"north","state"]`)
		return strings.Contains(states[len(states)-1], `\"free\"`) && strings.Count(strings.Join(states, ""), `\"released\"`) == 2
	})
	if err := r.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-r.Done
	return file
}

// lines are what a recording that is being written has by now.
func lines(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(zip) // up to where it breaks off
	return string(text)
}

// TestReplay: a recording goes from entry to entry, back, and to a moment that an address
// names, without a broker.
func TestReplay(t *testing.T) {
	t.Parallel()
	file := recorded(t)
	_, board := startReady(t, "pubsub-node", "ui", "--web", "127.0.0.1:0", "--replay", file)
	b := startBrowser(t)
	p := b.open(board+"?at=0", desktop)
	p.await("document.querySelector('#play')?.textContent === 'play' && !%s?.dataset.holder", row("crane", "north"))
	p.click("#next")
	p.await("%s?.dataset.holder === 'lift-1'", row("crane", "north"))
	first := p.text("document.querySelector('#here').href")
	p.click("#next")
	p.await("%s.dataset.holder === 'lift-2'", row("crane", "north"))
	if since := p.text(row("crane", "north") + ".querySelector('.since').textContent"); since != "0.0s" {
		t.Errorf("lift-2 has held it for %q at the moment of its entry", since)
	}
	p.eval("board.replay.player.setSpeed(16), board.replay.player.play()", nil)
	p.await("document.querySelector('#play').textContent === 'play' && %s.dataset.state === 'free'", row("crane", "north"))
	p.await("[...document.querySelectorAll('#history li')].filter(i => i.textContent.includes('granted')).length === 2")

	p.eval("board.replay.player.seek(0)", nil)
	p.await("%s?.dataset.holder !== 'lift-2'", row("crane", "north"))
	p.await("document.querySelectorAll('#history li').length === 0")
	p.quiet()

	p = b.open(first, desktop)
	p.await("%s?.dataset.holder === 'lift-1' && document.querySelector('#play').textContent === 'play'", row("crane", "north"))
	p.eval("location.hash = '#/lock/crane/north'", nil)
	p.await("document.querySelector('#holder').click(), true")
	p.await("%s.textContent.includes('to lift-1, in its turn. Nobody else waited.')", explanation)
	p.quiet()
}

// TestRecordingIsDropped onto the page of a broker, which shows it from then on; what is none
// is refused.
func TestRecordingIsDropped(t *testing.T) {
	extent.Long(t, "a recording of a run")
	t.Parallel()
	file, err := os.ReadFile(recorded(t))
	if err != nil {
		t.Fatal(err)
	}
	s := startSite(t)
	p := startBrowser(t).open(s.board, desktop)
	p.await("%s?.dataset.state === 'free'", row("crane", "south"))
	drop := func(data []byte) {
		p.eval(fmt.Sprintf(`(() => {
			const data = new DataTransfer();
			data.items.add(new File([Uint8Array.from(atob(%q), c => c.charCodeAt(0))], "dropped.padme"));
			document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
		})()`, base64.StdEncoding.EncodeToString(data)), nil)
	}
	drop([]byte("a text"))
	p.await("document.querySelector('#notices').textContent.includes('dropped.padme cannot be replayed: it cannot be read')")
	p.await("document.querySelector('#connection').dataset.state === 'connected'")
	drop(file)
	p.await("document.querySelector('#connection').dataset.state === 'replay' && board.replay.player.recording.messages.length > 0")
	p.eval("board.replay.player.seek(1e9)", nil)
	p.await("[...document.querySelectorAll('#history li')].filter(i => i.textContent.includes('granted')).length === 2")
	s.first.lock("south", 1) // of which a recording knows nothing
	p.await("%s?.dataset.state === 'free'", row("crane", "south"))
	p.quiet()
}
