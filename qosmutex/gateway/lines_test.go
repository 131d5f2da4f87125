package gateway

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"padme/qosmutex/internal/limited"
)

// After a restart all clients ask at once, and are told that nobody serves them yet: 30 clients with 128
// requests each are beyond no limit of theirs.
func TestExcusesAreNoLimit(t *testing.T) {
	var log strings.Builder
	g := bare(slog.New(slog.NewTextHandler(&log, nil)))
	tp := newTopic(g, "crane")
	e := excuses{topic: tp, ends: map[clientKey]time.Time{}}
	now := time.Now()
	for i := range 128 {
		for c := range 30 {
			m := message{client: fmt.Sprint("c", c), at: now, payload: []byte(fmt.Sprintf(`{"op":"acquire","id":"%d","wait_ms":10000}`, i))}
			func() {
				defer func() { recover() }() // bare has no participant to publish with
				e.excuse(&m, "no majority", now)
			}()
		}
	}
	if n := strings.Count(log.String(), "limit=denials"); n > 0 {
		t.Errorf("%d honest clients are named in the log: %s", n, strings.SplitN(log.String(), "\n", 2)[0])
	}
}

// A name is cut, and what it was cut from is not kept.
func TestNamesAreNotKeptWhole(t *testing.T) {
	l := limited.New(slog.New(slog.DiscardHandler), "client", limits)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1024 {
		topic := "p/lock/" + fmt.Sprint(i) + strings.Repeat("x", 60000) + "/client/" + fmt.Sprint(i) + "/request"
		l.Count(0, strings.Split(topic, "/")[4], time.Now())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; kept > 2 {
		t.Errorf("1,024 names keep %d MB", kept)
	}
	runtime.KeepAlive(l)
}

// The name of a lock is cut like that of a client.
func TestLockNamesAreCut(t *testing.T) {
	var log strings.Builder
	g := bare(slog.New(slog.NewTextHandler(&log, nil)))
	lock := strings.Repeat("x", 60000)
	for range 10000 {
		g.says(lock, "{")
		if log.Len() > 0 {
			break
		}
	}
	if log.Len() > 2000 {
		t.Errorf("a line of %d bytes: %.150s", log.Len(), log.String())
	}
}
