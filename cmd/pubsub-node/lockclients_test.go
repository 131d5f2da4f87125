//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
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
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	dir := t.TempDir()
	startNode(t, dir, url, "serve", "crane", "--id", "gate", "--ready-file", "served")
	eventually(t, "the gateway serves", func() bool { return exists(filepath.Join(dir, "served")) })
	holder := startNode(t, dir, url, "lock", "crane", "--", "sh", "-c", "touch held; until [ -e free ]; do sleep 0.05; done")
	eventually(t, "the lock is held", func() bool { return exists(filepath.Join(dir, "held")) })
	askAlways(t, url, "esp32", 50)
	askAlways(t, url, "esp33", 40)
	awaitQueue(t, url, "gate", "gate")
	for _, step := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"lock", "queue", "crane"}, 0, `(?m)^crane +default +0 +.* +100\ncrane +default +1 +gate +40\ncrane +default +2 +gate +50$`},
		{[]string{"lock", "queue", "crane/default", "--json"}, 0, `{"lock":"crane","resource":"default","position":1,"participant":"gate","priority":40}`},
		{[]string{"lock", "queue", "crane/hook"}, 1, `nothing is known of lock "crane/hook"`},
		{[]string{"lock", "clients", "crane", "--listen", "1s"}, 0, `(?m)^esp33 +7 +default +waiting +1 +40 +-\nesp32 +7 +default +waiting +2 +50 +-$`},
		{[]string{"lock", "bump", "crane", "esp32", "-p", "1", "--listen", "1s", "--json"}, 0, `^{"lock":"crane","client":"esp32","id":"7","session":"s","op":"raise","outcome":"waiting",.*"priority":1,.*"sent":\d+`},
		{[]string{"lock", "clients", "crane", "--listen", "1s"}, 0, `(?m)^esp32 +7 +default +waiting +1 +1 +-\nesp33 +7 `},
		{[]string{"lock", "bump", "crane", "esp32", "-p", "99", "--listen", "1s"}, 77, `refuses it: bad_priority`},
		{[]string{"lock", "bump", "crane", "esp34", "-p", "1", "--listen", "300ms"}, 1, `no such request of client "esp34"`},
		{[]string{"lock", "bump", "crane", "esp32"}, 2, `missing -p PRIORITY`},
		{[]string{"lock", "evict", "crane", "esp33", "--listen", "1s", "--json"}, 0, `"client":"esp33","id":"7",.*"outcome":"lost","reason":"gone"`},
		{[]string{"lock", "clients", "crane", "--listen", "1s"}, 0, `^[^\n]*\nesp32 [^\n]*\n$`},
	} {
		n := startNode(t, dir, url, step.args...)
		if code := n.exit(t); code != step.code {
			t.Errorf("%q: exit code %d: %s", step.args, code, &n.stderr)
		}
		if says := n.stdout.String() + n.stderr.String(); !regexp.MustCompile(step.says).MatchString(says) {
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
	eventually(t, "the client holds", func() bool {
		n := startNode(t, dir, url, "lock", "clients", "crane", "--listen", "300ms")
		n.exit(t)
		return regexp.MustCompile(`esp32 +7 +default +granted`).MatchString(n.stdout.String())
	})
	evicting := startNode(t, dir, url, "lock", "evict", "crane", "esp32", "--listen", "1s")
	next := startNode(t, dir, url, "lock", "crane", "--", "true")
	if code := evicting.exit(t); code != 0 || !regexp.MustCompile(`esp32 +7 +default +lost`).MatchString(evicting.stdout.String()) {
		t.Errorf("evict: exit code %d: %s%s", code, &evicting.stdout, &evicting.stderr)
	}
	if code := next.exit(t); code != 0 {
		t.Errorf("the next: exit code %d: %s", code, &next.stderr)
	}
}
