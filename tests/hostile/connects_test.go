//go:build linux

package hostile

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/tests/extent"
)

const limited = "padme_broker_limited_total"

// strangers is how many connect at a time: as many as the node lets in unknown, but for a few, or half.
var strangers = extent.Of(2000, 4090)

// mostForConnects is what they may cost the node, in bytes of resident memory: for each that stays its
// CONNECT, twice with garbage, and the goroutines and buffers of its connection.
func mostForConnects() int64 { return 64<<20 + int64(strangers)*(96<<10) }

// Strangers connect by the thousand, each with a CONNECT as long as it may be and a wrong
// password, and go away, or stay. Whoever has a password comes in all the same, also one
// whose password was never checked before, and the strangers cost neither memory nor time
// once they are gone.
func TestStrangersByTheThousand(t *testing.T) {
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	base := n.memory(t, "VmRSS")
	for _, attack := range []struct {
		name, user string // who comes in meanwhile, for the first time
		load       []byte // user properties
		stay       bool
	}{
		{"64 KB of empty user properties", "spy", bytes.Repeat(user("", ""), 65_000/5), false},
		{"as much as a CONNECT may hold", "esp", user("k", strings.Repeat("x", 15_000)), false},
		{"as much, and they stay", "mallory", user("k", strings.Repeat("x", 15_000)), true},
	} {
		t.Run(attack.name, func(t *testing.T) {
			var guessers []net.Conn
			var sent, entered time.Duration
			h.during(t, func() {
				began := time.Now()
				guessers = n.guess(t, attack.load)
				sent = time.Since(began)
				if !attack.stay {
					for _, c := range guessers {
						_ = c.Close()
					}
				}
				entered = n.from(t, "127.0.0.2", attack.user)
			})
			t.Logf("%d strangers in %v; a user from elsewhere came in after %v; resident %d MB more, %d MB at most so far", len(guessers), sent, entered,
				(n.memory(t, "VmRSS")-base)>>20, (n.memory(t, "VmHWM")-base)>>20)
			for _, c := range guessers {
				_ = c.Close()
			}
		})
	}
	if n.sum(t, limited, `"max-connect-size"`) < 1000 || !n.Out.Has("max-connect-size") {
		t.Error("nobody was told of CONNECTs that were too long")
	}
	if cost := n.memory(t, "VmHWM") - base; cost > mostForConnects() {
		t.Errorf("%d strangers have cost %d MB", strangers, cost>>20)
	}
}

// guess has strangers connect, each with properties and a wrong password of alice's.
func (n *node) guess(t *testing.T, load []byte) (all []net.Conn) {
	t.Helper()
	const at = 50
	var wg sync.WaitGroup
	var mu sync.Mutex
	for s := range at {
		wg.Go(func() {
			for i := s; i < strangers; i += at {
				c, err := net.DialTimeout("tcp", n.addr, patience)
				if err != nil {
					continue
				}
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
				_ = c.SetWriteDeadline(time.Now().Add(patience))
				_, _ = c.Write(connect5(fmt.Sprintf("x%d-%d", s, i), "alice", fmt.Sprintf("guess %d %d", s, i), properties(load)))
			}
		})
	}
	wg.Wait()
	return all
}

// At the WebSocket listener the head of a request takes the place of the CONNECT. One of short lines
// without an end, as long as it may be, costs no more: it is refused before net/http makes
// twenty times as much of it.
func TestStrangersWithManyHeaders(t *testing.T) {
	n := startNode(t, "--ws", "127.0.0.1:0")
	h := startHonest(t, n)
	h.goOn(t)
	base, at := n.memory(t, "VmRSS"), n.webSocket(t)
	const first = "GET /mqtt HTTP/1.1\r\nHost: x\r\n"
	for _, attack := range []struct{ name, head string }{
		{"as many lines as fit", first + lines(19_000)},
		{"as many as may be, and long ones", first + strings.Repeat("x: "+strings.Repeat("x", 240)+"\r\n", 62)},
	} {
		t.Run(attack.name, func(t *testing.T) {
			var entered time.Duration
			var all []net.Conn
			h.during(t, func() {
				all = opened(at)
				var sent sync.WaitGroup
				for _, c := range all {
					sent.Go(func() {
						_ = c.SetWriteDeadline(time.Now().Add(patience))
						_, _ = c.Write([]byte(attack.head))
					})
				}
				sent.Wait()
				entered = n.from(t, "127.0.0.2", "spy")
			})
			t.Logf("%d strangers; a user from elsewhere came in after %v; resident %d MB more at most so far", len(all), entered, (n.memory(t, "VmHWM")-base)>>20)
			for _, c := range all {
				_ = c.Close()
			}
		})
	}
	if got := n.sum(t, limited, `"max-connect-size"`); got < float64(strangers)/2 {
		t.Errorf("%.0f were told of too many headers", got)
	}
	if cost := n.memory(t, "VmHWM") - base; cost > mostForConnects() {
		t.Errorf("%d strangers have cost %d MB", strangers, cost>>20)
	}
}

// lines are headers without a value, each with another name.
func lines(length int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	var all []byte
	for i := 0; len(all) < length; i++ {
		all = append(all, alphabet[i/36/36%36], alphabet[i/36%36], alphabet[i%36], ':', '\r', '\n')
	}
	return string(all)
}

// opened are connections of strangers.
func opened(addr string) (all []net.Conn) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 50 {
		wg.Go(func() {
			for range strangers / 50 {
				if c, err := net.DialTimeout("tcp", addr, patience); err == nil {
					mu.Lock()
					all = append(all, c)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return all
}
