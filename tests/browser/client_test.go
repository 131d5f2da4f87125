//go:build linux

package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"padme/tests/process"
)

// Two pages with clients/js share a lock over WebSocket, and one that is lost says so.
func TestJavaScriptClientInPages(t *testing.T) {
	t.Parallel()
	const dir = "../../clients/js"
	if _, err := os.Stat(dir + "/node_modules/mqtt"); err != nil {
		process.Missing(t, "the npm package mqtt", "npm ci --prefix clients/js")
	}
	b := startBrowser(t)
	files := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer files.Close()
	broker, url := startReady(t, "pubsub-node", "broker", "--listen", "127.0.0.1:0", "--ws", "127.0.0.1:0", "--timing", "lan")
	startReady(t, "pubsub-node", "serve", "--broker", url, "--id", "gw")
	_, ws, _ := strings.Cut(broker.Printed(), "\nws")
	ws, _, _ = strings.Cut(strings.TrimSpace(ws), "\n")
	open := func(priority string) *page {
		p := b.open(files.URL+"/example.html#ws://"+ws, desktop)
		p.await(`document.getElementById("state").textContent === "not held"`)
		p.eval(`document.getElementById("priority").value = `+priority, nil)
		return p
	}
	state := func(p *page, begins string) {
		t.Helper()
		p.await(`document.getElementById("state").textContent.startsWith(%q)`, begins)
	}
	first, late, soon := open("100"), open("200"), open("5")
	first.click("#lock")
	state(first, "held, fence ")
	late.click("#lock")
	state(late, "waiting, number 1 in line")
	soon.click("#lock")
	state(soon, "waiting, number 1 in line")
	first.click("#leave")
	state(first, "not held")
	state(soon, "held, fence ")
	state(late, "waiting, number")
	soon.must("close", arguments{}, nil) // its connection ends with it
	state(late, "held, fence ")
	late.click("#leave")
	state(late, "not held")
	first.click("#lock")
	state(first, "held, fence ")
	expected := []string{
		"another host: ws://" + ws + "/", "another host: blob:" + files.URL + "/", // the broker; the timers of mqtt.js
		// a page that is kept from running for the broker's 5 s connects again
		"error: WebSocket connection to 'ws://" + ws + "/' failed", "error: WebSocket is already in CLOSING or CLOSED state.",
	}
	for _, p := range []*page{first, late} {
		complaints := slices.DeleteFunc(p.complaints(), func(c string) bool {
			return slices.ContainsFunc(expected, func(e string) bool { return strings.HasPrefix(c, e) })
		})
		if len(complaints) > 0 {
			t.Errorf("the browser complains:\n%s", strings.Join(complaints, "\n"))
		}
	}
	broker.Kill()
	state(first, "the hold of crane/default with fence ") // … is lost
}
