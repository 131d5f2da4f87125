package broker_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/capture"
	"padme/tests/poll"
)

// A stranger, and an account, may be refused as often as they like.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	log := &capture.Text{}
	b := start(t, broker.Config{Users: cast(t), Logger: log.Logger()})
	long := strings.Repeat("\x01", 10_000)
	for range 50 {
		c := raw(t, b)
		c.send(packet(0x10, text("MQTT"), []byte{4, 0xc2, 0, 60}, text(long), text("nobody"), text(long[:100])))
		c.receive()
		c = raw(t, b)
		c.connect("c", "alice", "", "")
		c.send(packet(0x32, text(long), []byte{0, 7}))
		c.receive()
		c = five(t, b, "five")
		c.send(packet(0x32, text(long), []byte{0, 7, 0}))
		c.receive()
	}
	if all := log.String(); len(all) > 20_000 || !strings.Contains(all, "nobody") || !strings.Contains(all, "alice") {
		t.Errorf("%d bytes of log: %.2000q", len(all), all)
	}
}

// Nor does whoever reads or acknowledges nothing fill it, over ever new connections. Each line names
// the limit and who it was.
func TestWhoDoesNotReadDoesNotFillTheLog(t *testing.T) {
	const topic, times = "padme/v1/default/presence/bob", 20
	id := strings.Repeat("\x01", 500)
	for name, c := range map[string]struct {
		limits broker.Limits
		user   string
		stall  func(lags *rawConn, bob *client, gone func() bool)
		says   string
		limit  string
	}{
		"acknowledges nothing": {broker.Limits{Queue: 16, WriteTimeout: 20 * time.Millisecond}, "alice", func(lags *rawConn, bob *client, _ func() bool) {
			lags.subscribe(4, topic)
			go func() { _, _ = io.Copy(io.Discard, lags) }()
			for range 20 {
				bob.publish(topic, "x", 1, false)
			}
		}, "does not read or acknowledge", "limit=write-timeout"},
		"loses a message": {broker.Limits{UserQueue: 1_000_000, WriteTimeout: time.Hour}, "watch", func(lags *rawConn, bob *client, gone func() bool) {
			lags.subscribe(4, topic)
			for range 500 { // more than sockets take
				if bob.publish(topic, strings.Repeat("x", 100_000), 1, false); gone() {
					break
				}
			}
		}, "its queue is full", "limit=max-user-queue"},
		"does not read what is retained": {broker.Limits{WriteTimeout: 20 * time.Millisecond}, "watch", func(lags *rawConn, bob *client, _ func() bool) {
			lags.send(packet(0x82, []byte{0, 1}, text("padme/v1/default/data/#"), []byte{0}))
		}, "does not read the retained messages|limit reached", "limit=write-timeout"}, // whoever waits for it notices first
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, registry := &capture.Text{}, prometheus.NewRegistry()
			b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Logger: log.Logger(), Metrics: registry, Limits: c.limits})
			bob := connect(t, inProcess(b), as("bob", "bob"))
			for i := range 40 { // more than sockets take
				bob.publish(fmt.Sprintf("padme/v1/default/data/p/t/k%d/bob/w", i), strings.Repeat("x", 500_000), 1, true)
			}
			gone := func() bool { return gather(t, registry)["padme_broker_clients"] == 1 }
			for i := range times {
				lags := raw(t, b)
				lags.connect(fmt.Sprint(i, id), c.user, "", "")
				c.stall(lags, bob, gone)
				poll.UntilOr(t, gone, func() string { return "it is still there" })
				_ = lags.Close()
			}
			told := 0
			for says := range strings.SplitSeq(c.says, "|") {
				lines := slices.DeleteFunc(strings.Split(log.String(), "\n"), func(l string) bool { return !strings.Contains(l, says) })
				if told += len(lines); len(lines) == 1 && len(lines[0]) < 2000 && strings.Contains(lines[0], c.limit) && strings.Contains(lines[0], c.user) {
					continue
				}
				if len(lines) > 0 {
					t.Errorf("%d lines: %.3000q", len(lines), lines)
				}
			}
			if told == 0 {
				t.Error("nothing is told: " + log.String())
			}
		})
	}
}

// What a client causes is told by what shortens it and tells it once a minute.
func TestWhatClientsCauseIsToldOnce(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Warn" && f.Sel.Name != "Error" {
				return true
			}
			for _, arg := range call.Args {
				if of, ok := arg.(*ast.BasicLit); ok && slices.Contains([]string{`"client"`, `"topic"`, `"remote"`, `"stack"`}, of.Value) {
					t.Errorf("%s: use tell for what is logged of a %s", set.Position(call.Pos()), of.Value)
				}
			}
			return true
		})
	}
}

// What is one too many is logged with its limit, not under a name that nobody has used, and counts
// for no other limit.
func TestALimitIsNoRefusedTopic(t *testing.T) {
	log := &capture.Text{}
	b := start(t, broker.Config{
		Users: cast(t), Limits: broker.Limits{UserSubscriptions: 2, SharedSubscriptions: 1, UserWildcards: 1},
		Logger: log.Logger(),
	})
	const presence = "padme/v1/default/presence/"
	conns := map[string]*rawConn{}
	for _, s := range []struct {
		user, id, filter string
		granted          bool
		limit            string
	}{
		{"alice", "a", "$share/g/" + presence + "a", true, ""},
		{"alice", "a", "$share/g/" + presence + "b", false, "max-shared-subscriptions"},
		{"alice", "b", "padme/#", true, ""},
		{"alice", "c", presence + "c", false, "max-user-subscriptions"},
		{"bob", "a", "padme/#", true, ""},
		{"bob", "b", "padme/#", false, "max-user-wildcards"},
	} {
		c := conns[s.user+s.id]
		if c == nil {
			c = raw(t, b)
			c.send(connect5(s.id, s.user, s.user, 0))
			c.receive()
			conns[s.user+s.id] = c
		}
		before := log.String()
		c.send(packet(0x82, []byte{0, 7, 0}, filter(s.filter, 0)))
		_, body := c.receive()
		if granted := body[len(body)-1] < 0x80; granted != s.granted {
			t.Errorf("%+v: %v", s, body)
		}
		said := strings.TrimPrefix(log.String(), before)
		if s.limit == "" && said != "" || s.limit != "" && (strings.Count(said, "\n") != 1 || !strings.Contains(said, "limit="+s.limit+" ")) {
			t.Errorf("%+v: %s", s, said)
		}
	}
}
