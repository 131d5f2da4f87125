//go:build unix

package main

import (
	"bytes"
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
	"padme/tests/extent"
	"padme/tests/poll"
)

// askAlways is a client of a gateway that says again and again that it wants crane.
func askAlways(t *testing.T, url, client string, priority int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p, err := pubsub.Join(ctx, url, client)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended; leave(p) })
	go func() {
		defer close(ended)
		for n := 1; ctx.Err() == nil; n++ {
			request := fmt.Sprintf(`{"op":"acquire","id":"7","session":"s","sent":%d,"priority":%d}`, n, priority)
			_ = p.PublishRaw(pubsub.Main, []string{"lock", "crane", "client", client, "request"}, []byte(request), false)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
}

func TestOperatorsRaiseAndEvictClients(t *testing.T) {
	extent.Long(t, "a queue of clients")
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	dir := t.TempDir()
	startNode(t, dir, url, "serve", "crane", "--id", "gate", "--ready-file", "served")
	poll.Until(t, "the gateway serves", func() bool { return exists(filepath.Join(dir, "served")) })
	holder := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.05; done")
	poll.Until(t, "the lock is held", func() bool { return exists(filepath.Join(dir, "held")) })
	askAlways(t, url, "esp32", 50)
	askAlways(t, url, "esp33", 40)
	awaitQueue(t, url, "esp33", "esp32")
	for _, step := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"lock", "queue", "crane"}, 0, `(?m)^crane +default +0 +.* +100\ncrane +default +1 +esp33 \(via gate\) +40\ncrane +default +2 +esp32 \(via gate\) +50$`},
		{[]string{"lock", "queue", "crane/default", "--json"}, 0, `{"lock":"crane","resource":"default","position":1,"participant":"esp33","via":"gate","priority":40}`},
		{[]string{"lock", "queue", "crane/hook"}, 1, `nothing is known of lock "crane/hook"`},
		{[]string{"lock", "clients", "crane", "--listen", "1s"}, 0, `(?m)^esp33 +7 +default +waiting +1 +40 +- +gate\nesp32 +7 +default +waiting +2 +50 +- +gate$`},
		{[]string{"lock", "bump", "crane", "esp32", "-p", "1", "--listen", "1s", "--json"}, 0, `^{"lock":"crane","client":"esp32","id":"7","session":"s","op":"raise","outcome":"waiting",.*"priority":1,.*"sent":\d+`},
		{[]string{"lock", "clients", "crane", "--listen", "1s"}, 0, `(?m)^esp32 +7 +default +waiting +1 +1 +- +gate\nesp33 +7 `},
		{[]string{"lock", "bump", "crane", "esp32", "-p", "99", "--listen", "1s"}, 77, `refuses it: bad_priority`},
		{[]string{"lock", "bump", "crane", "esp34", "-p", "1", "--listen", "300ms"}, 1, `no such request of client "esp34"`},
		{[]string{"lock", "bump", "crane", "esp32"}, 2, `missing -p PRIORITY`},
		{[]string{"lock", "evict", "crane", "esp33", "--listen", "1s", "--json"}, 0, `"client":"esp33","id":"7",.*"outcome":"lost","reason":"gone"`},
		{[]string{"lock", "clients", "crane", "--listen", "1s"}, 0, `^[^\n]*\n[^\n]* granted [^\n]*\nesp32 [^\n]*\n$`}, // the holder is a client, too
	} {
		n := startNode(t, dir, url, step.args...)
		if code := n.exit(t); code != step.code {
			t.Errorf("%q: exit code %d: %s", step.args, code, &n.Err)
		}
		if says := n.Out.String() + n.Err.String(); !regexp.MustCompile(step.says).MatchString(says) {
			t.Errorf("%q says %s", step.args, says)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "free"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	holder.exit(t)
	evictHolder(t, dir, url)
}

// evictHolder: one that holds ends when it cannot believe in it any more, and then the
// next gets in.
func evictHolder(t *testing.T, dir, url string) {
	t.Helper()
	poll.Until(t, "the client holds", func() bool {
		n := startNode(t, dir, url, "lock", "clients", "crane", "--listen", "300ms")
		n.exit(t)
		return regexp.MustCompile(`esp32 +7 +default +granted`).MatchString(n.Out.String())
	})
	evicting := startNode(t, dir, url, "lock", "evict", "crane", "esp32", "--listen", "1s")
	next := startNode(t, dir, url, "lock", "crane", "--", "true")
	if code := evicting.exit(t); code != 0 || !regexp.MustCompile(`esp32 +7 +default +lost`).MatchString(evicting.Out.String()) {
		t.Errorf("evict: exit code %d: %s%s", code, &evicting.Out, &evicting.Err)
	}
	if code := next.exit(t); code != 0 {
		t.Errorf("the next: exit code %d: %s", code, &next.Err)
	}
}

// published keeps what is published of the lock crane as JSON: the last state, and the
// events.
type published struct {
	mu     sync.Mutex
	state  map[string]any
	events []map[string]any
}

func listen(t *testing.T, p *pubsub.Participant) *published {
	t.Helper()
	l := &published{}
	object := func(text []byte) (o map[string]any) {
		if err := json.Unmarshal(text, &o); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		return o
	}
	for _, levels := range [][]string{{"lock", "crane", "default", "state"}, {"lock", "crane", "events"}} {
		stop, err := p.SubscribeRaw(t.Context(), pubsub.Main, levels, func(m pubsub.RawMessage) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if levels[2] == "events" {
				for line := range bytes.Lines(m.Payload) {
					l.events = append(l.events, object(line))
				}
			} else if len(m.Payload) > 0 {
				l.state = object(m.Payload)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	return l
}

// says reports whether the state names holder and via, and who waits, each as "name via".
func (l *published) says(holder, via any, waiting ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var queue []string
	all, _ := l.state["queue"].([]any)
	for _, w := range all {
		one, _ := w.(map[string]any)
		queue = append(queue, fmt.Sprint(one["participant"], " ", one["via"]))
	}
	return l.state["holder"] == holder && l.state["via"] == via && strings.Join(queue, ",") == strings.Join(waiting, ",")
}

// heard reports whether there was such an event.
func (l *published) heard(event, participant string, via any) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e["event"] == event && e["participant"] == participant && e["via"] == via {
			return true
		}
	}
	return false
}

// Two clients without a library and a Go member want one lock: what is published and what
// the verbs print names the clients, and the gateway as what they come through.
func TestClientsAreNamed(t *testing.T) {
	extent.Long(t, "a queue of clients")
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	dir := t.TempDir()
	watcher, err := pubsub.Join(t.Context(), url, "watcher")
	if err != nil {
		t.Fatal(err)
	}
	defer leave(watcher)
	told := listen(t, watcher)
	startNode(t, dir, url, "serve", "crane", "--id", "gate", "--ready-file", "served")
	poll.Until(t, "the gateway serves", func() bool { return exists(filepath.Join(dir, "served")) })
	askAlways(t, url, "esp32", 50)
	poll.Until(t, "the state names the client", func() bool { return told.says("esp32", "gate") })

	p, err := pubsub.Join(t.Context(), url, "lift")
	if err != nil {
		t.Fatal(err)
	}
	defer leave(p)
	topic, err := qosmutex.Open(t.Context(), p, "crane")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = topic.Close(context.Background()) }()
	entered := make(chan *qosmutex.Hold, 1)
	go func() {
		h, err := topic.Lock(t.Context(), "default", qosmutex.WithPriority(60))
		if err != nil {
			t.Error(err)
		}
		entered <- h
	}()
	askAlways(t, url, "esp33", 70)
	poll.Until(t, "the state names all", func() bool { return told.says("esp32", "gate", "lift <nil>", "esp33 gate") })

	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"lock", "ls", "crane"}, `(?m)^crane +default +held +esp32 \(via gate\) +50 `},
		{[]string{"lock", "ls", "crane", "--json"}, `"holder":"esp32","via":"gate","priority":50,.*"queue":\[{"participant":"lift","priority":60,"clock":[0-9]+,"arrival":[0-9]+},{"participant":"esp33","via":"gate","priority":70,"clock":[0-9]+,"by":"priority","arrival":[0-9]+}\]`},
		{[]string{"lock", "queue", "crane"}, `(?m)^crane +default +0 +esp32 \(via gate\) +50\ncrane +default +1 +lift +60\ncrane +default +2 +esp33 \(via gate\) +70$`},
		{[]string{"lock", "clients", "crane", "--listen", "1s"}, `(?m)^esp32 +7 +default +granted +- +50 +\d+ +gate\nesp33 +7 +default +waiting +2 +70 +- +gate$`},
		{[]string{"top", "crane", "-n", "1"}, `(?m)^crane +esp32 \(via `},
		{[]string{"node", "info", "gate"}, `(?m)^crane +default +holder for esp32 +50\ncrane +default +waiter for esp33 +70$`},
		{[]string{"graph"}, `"participant gate" \[label="held for esp32"\]`},
		{[]string{"graph"}, `"participant gate" -> "lock crane/default" \[label="waits 2 for esp33" style=dashed\]`},
	} {
		n := startNode(t, dir, url, step.args...)
		n.exit(t)
		if !regexp.MustCompile(step.says).MatchString(n.Out.String()) {
			t.Errorf("%q says %s%s, want %s", step.args, &n.Out, &n.Err, step.says)
		}
	}
	if code := startNode(t, dir, url, "lock", "evict", "crane", "esp32", "--listen", "1s").exit(t); code != 0 {
		t.Errorf("evict: exit code %d", code)
	}
	h := <-entered
	if h == nil {
		return
	}
	poll.Until(t, "the state names the member", func() bool { return told.says("lift", nil, "esp33 gate") })
	_ = h.Unlock()
	poll.Until(t, "the next client is named", func() bool { return told.says("esp33", "gate") })
	for _, e := range []struct {
		event, participant string
		via                any
	}{{"requested", "esp32", "gate"}, {"granted", "esp32", "gate"}, {"released", "esp32", "gate"}, {"granted", "lift", nil}, {"requested", "esp33", "gate"}} {
		if !told.heard(e.event, e.participant, e.via) {
			t.Errorf("no event %s of %s via %v", e.event, e.participant, e.via)
		}
	}
}
