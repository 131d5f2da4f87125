package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/control"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/telemetry"
	"padme/pubsub"
	"padme/tests/extent"
	"padme/tests/poll"
)

func TestBrokerIsStoppedAndComesBack(t *testing.T) {
	extent.Long(t, "an outage")
	extent.NotShort(t, "real time")
	t.Parallel()
	s := perform(t, "--robots", "3")
	poll.Within(s.t, patienceInTests, "figures", func() bool { return last[telemetry.Figures](s, "show/figures").Entries > 3 })
	changes := make(chan bool, 100)
	defer s.p.Notify(func(up bool) { changes <- up })()
	s.do(control.Command{Do: control.StopBroker})
	for _, want := range []bool{false, true} {
		select {
		case up := <-changes:
			if up != want {
				t.Fatalf("connected: %v, want %v", up, want)
			}
		case <-time.After(40 * time.Second):
			t.Fatalf("waited too long to be connected: %v", want)
		}
	}
	// The new broker remembers nothing: everything is said again.
	s.mu.Lock()
	clear(s.messages)
	s.mu.Unlock()
	poll.Within(s.t, patienceInTests, "the run to go on", func() bool { return last[telemetry.Figures](s, "show/figures").Entries > 6 })
	poll.Within(s.t, patienceInTests, "everything to be told", func() bool {
		return len(last[telemetry.Scene](s, "show/scene").Ruins) > 0 && s.view().Root != "" && len(last[[]telemetry.Survivor](s, "show/survivors")) == 30
	})
	s.finish()
}

// Who takes the broker's port while it is stopped only delays it.
func TestBrokerComesBackWhereItsPortWasTaken(t *testing.T) {
	extent.Long(t, "an outage")
	extent.NotShort(t, "real time")
	t.Parallel()
	s := perform(t, "--robots", "2")
	s.do(control.Command{Do: control.StopBroker})
	var taken net.Listener
	poll.Within(s.t, patienceInTests, "the broker to stop", func() (ok bool) {
		var err error
		taken, err = net.Listen("tcp", strings.TrimPrefix(s.broker, "mqtt://"))
		return err == nil
	})
	time.Sleep(brokerAway + time.Second) // that it could not start is told nowhere
	taken.Close()
	poll.Within(s.t, patienceInTests, "the broker to be back", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.broker, "mqtt://"))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// Somebody else's broker is not stopped.
func TestForeignBrokerIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	s := perform(t, "--robots", "2", "--broker", b)
	s.refused(control.Command{Do: control.StopBroker}, "not the demo's")
	if s.config.URL != "" {
		t.Errorf("the page goes to %q, want the bridge", s.config.URL)
	}
	s.finish()
}

func TestUnderChaosThePageOnlyLooks(t *testing.T) {
	t.Parallel()
	s := perform(t, "--robots", "2", "--processes", "--chaos", "--switch-at", "1s")
	for _, c := range []control.Command{{Do: control.Kill, Robot: "robot-1"}, {Do: control.StopBroker}} {
		s.refused(c, "--chaos follows a plan of its own")
	}
	s.end()
}

func TestThePageIsServed(t *testing.T) {
	t.Parallel()
	s := perform(t, "--robots", "1", "--listen", "0.0.0.0:0")
	if !strings.HasPrefix(s.config.URL, "ws://127.0.0.1:") || s.config.Domain != scenario.Domain || len(s.key) != 32 {
		t.Errorf("%+v", s.config)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"": "<title>Search and rescue", "page.js": "import", "page.css": "--ground", "base/mqtt.esm.js": "", "icon.svg": "<svg"} {
		response, err := client.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("/%s: %s, %v", path, response.Status, err)
		}
	}
	s.finish()
	if last[telemetry.Scene](s, "show/scene").Over != true {
		t.Error("nobody was told that the run is over")
	}
}

func TestTakenPortOfThePage(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	code, stdout, stderr := play(t, t.Context(), "--duration", "2s", "--web", listener.Addr().String())
	if code != exitFailed || !strings.Contains(stderr, "--web "+listener.Addr().String()) || !strings.Contains(stderr, "another address") {
		t.Errorf("exit code %d: %q %q", code, stdout, stderr)
	}
}

func TestWhetherThereIsAPage(t *testing.T) {
	for _, test := range []struct {
		addr               string
		chosen, open, json bool
		want, wrong        string
	}{
		{addr: pageAddress, want: pageAddress},
		{addr: pageAddress, json: true, want: ""},
		{addr: pageAddress, json: true, open: true, want: pageAddress},
		{addr: ":0", json: true, chosen: true, want: ":0"},
		{addr: "off", chosen: true, want: ""},
		{addr: "", chosen: true, want: ""},
		{addr: "off", chosen: true, open: true, wrong: "--open without a page"},
		{addr: "here", chosen: true, wrong: "give host:port"},
	} {
		c := pageConfig{Addr: test.addr, Open: test.open}
		err := c.settle(test.chosen, test.json)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%+v: %v", test, err)
			}
		} else if err != nil || c.Addr != test.want {
			t.Errorf("%+v: %q, %v", test, c.Addr, err)
		}
	}
	for addr, here := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, ":1": false, "0.0.0.0:1": false, "192.168.0.1:1": false} {
		if onlyHere(addr) != here {
			t.Errorf("%s reachable from here only: %v", addr, !here)
		}
	}
}

// A page that other machines reach has no key, and the broker stays here.
func TestNeighborsOnlyLook(t *testing.T) {
	t.Parallel()
	s := perform(t, "--robots", "1", "--web", "0.0.0.0:0")
	if len(s.key) != 0 || s.config.URL != "" {
		t.Errorf("%+v", s.config)
	}
	s.finish()
}

// After the run the page can still be opened, and shows how it ended, until Ctrl-C, which
// then is no interruption.
func TestPageStaysAfterTheRun(t *testing.T) {
	t.Parallel()
	s := perform(t, "--duration", "6s", "--stay")
	poll.Within(s.t, patienceInTests, "the page to stay", func() bool { return strings.Contains(s.said.String(), "\nthe page stays at "+s.url+" until Ctrl-C\n") })
	s.fetch()
	s.mu.Lock()
	clear(s.messages)
	s.mu.Unlock()
	late, err := pubsub.Join(t.Context(), s.broker, "late", pubsub.WithDomain(s.config.Domain))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close(context.Background())
	if _, err := late.SubscribeRaw(t.Context(), pubsub.Main, []string{"show", "+"}, s.heard); err != nil {
		t.Fatal(err)
	}
	poll.Within(s.t, patienceInTests, "the result", func() bool { return last[telemetry.Scene](s, "show/scene").Over })
	if code, text := s.end(); code != exitOK || !strings.Contains(text, "entries") {
		t.Errorf("code %d after\n%s", code, text)
	}
}
