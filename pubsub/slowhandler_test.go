package pubsub

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A handler that blocks stops all that its participant reads, and who wrote it is told, while
// it blocks and when it returns.
func TestAHandlerThatBlocksIsLogged(t *testing.T) {
	virtually(t, func(t *testing.T, w *world) {
		var log bytes.Buffer // goroutines of the bubble write to it by turns
		p := join(t, "", "a", WithDialer(w.b.Dial), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		release := make(chan struct{})
		stop, err := p.Inbox("work", func(m Message) {
			if string(m.Payload) == "long" {
				<-release
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		send := func(payload string) {
			t.Helper()
			if err := p.Send("a", "work", []byte(payload)); err != nil {
				t.Fatal(err)
			}
		}
		for range 30 { // as long as it does not block, any number of calls may come
			send("short")
			pass(100 * time.Millisecond)
		}
		if s := log.String(); strings.Contains(s, "a handler") {
			t.Errorf("logged: %s", s)
		}
		send("long")
		pass(slowHandler + time.Millisecond)
		if s := log.String(); strings.Count(s, "a handler blocks") != 1 {
			t.Errorf("after %v it is not logged once: %s", slowHandler, s)
		}
		pass(time.Second)
		close(release)
		pass(time.Millisecond)
		if s := log.String(); strings.Count(s, "a handler blocks") != 1 || !strings.Contains(s, "node/a/a took=2") {
			t.Errorf("it is not logged that it has returned: %s", s)
		}
	})
}
