//go:build linux

package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/extent"
	"padme/tests/poll"
)

// device locks as a JSON client, all the time.
type device struct {
	entries atomic.Int64
	mu      sync.Mutex
	lies    []string
	waited  time.Duration // the longest wait since it was asked for
}

func startDevice(t *testing.T, n *node) *device {
	t.Helper()
	d := &device{}
	p, err := pubsub.Join(t.Context(), "mqtt://"+n.addr, "esp", pubsub.WithCredentials("esp", "esp"), pubsub.Unannounced())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		working.Wait()
		closing, done := context.WithTimeout(context.Background(), patience)
		defer done()
		if err := p.Close(closing); err != nil {
			t.Error(err)
		}
	})
	lock, err := qosmutex.Dial(t.Context(), p, "gate")
	if err != nil {
		t.Fatal(err)
	}
	working.Go(func() {
		defer func() { _ = lock.Close(context.Background()) }()
		fence := uint64(0)
		for ctx.Err() == nil {
			asked := time.Now()
			hold, err := lock.Lock(ctx, "bar")
			if errors.Is(err, qosmutex.ErrCanceled) {
				return
			}
			d.waits(time.Since(asked))
			if err != nil {
				d.lie("esp: " + err.Error())
				return
			}
			if hold.Fence() <= fence {
				d.lie("esp has a fence of the past")
			}
			fence = hold.Fence()
			if err := hold.Unlock(); err != nil {
				d.lie("esp: " + err.Error())
			}
			d.entries.Add(1)
		}
	})
	return d
}

func (d *device) lie(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = append(d.lies, s)
}

func (d *device) waits(wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waited = max(d.waited, wait)
}

// longest returns the longest wait since the last call.
func (d *device) longest() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.waited = 0 }()
	return d.waited
}

func (d *device) goOn(t *testing.T) {
	t.Helper()
	before := d.entries.Load()
	poll.Within(t, patience, "twenty more entries of the device", func() bool { return d.entries.Load() >= before+20 })
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lies {
		t.Error(l)
	}
}

// A client floods the gateway, speaks for others, and says what is no request. Devices that
// speak JSON and members lock on.
func TestHostileGatewayClient(t *testing.T) {
	extent.Long(t, "floods of requests")
	t.Parallel()
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	d := startDevice(t, n)
	d.goOn(t)
	base := n.memory(t, "VmRSS")
	const gate, tooLarge = r + "lock/gate/client/", 8 << 10
	for _, attack := range []struct {
		name string
		run  func(t *testing.T, eve *raw)
	}{
		{"requests of others", func(t *testing.T, eve *raw) {
			n.grows(t, 60, refused, `"publish"`, func() {
				for i := range 20 {
					for _, op := range []string{"release", "gone", "renew"} {
						eve.publish(t, gate+"esp/request", fmt.Appendf(nil, `{"op":%q,"id":"%d"}`, op, i), i%2 == 0)
					}
				}
			})
			eve.publish(t, r+"lock/gate/client/eve/request", []byte(`{"op":"remove","id":"1"}`), false) // a gateway's own
			eve.publish(t, r+"lock/gateway/client/eve/request", []byte(`{"op":"gone"}`), false)
		}},
		{"forged answers", func(t *testing.T, eve *raw) {
			n.grows(t, 40, refused, `"publish"`, func() {
				for i := range 20 {
					for _, outcome := range []string{"granted", "lost"} {
						eve.publish(t, gate+"esp/answer", fmt.Appendf(nil, `{"id":"%d","outcome":%q,"resource":"bar","fence":"18446744073709551615","valid_ms":9223372036854775807,"gateway":%q}`, i, outcome, root), true)
					}
				}
			})
		}},
		{"answers in its own name", func(t *testing.T, eve *raw) {
			for range 100 {
				eve.publish(t, gate+"eve/answer", []byte(`{"id":"1","outcome":"granted","fence":"-1"}`), true)
			}
		}},
		{"a flood of requests", func(t *testing.T, eve *raw) {
			for i := range 20_000 { // on a busy machine not faster than a gateway reads
				eve.publish(t, gate+"eve/request", fmt.Appendf(nil, `{"op":"acquire","id":"%d","resource":"bar","priority":-9223372036854775808,"wait":9e99}`, i), false)
			}
			t.Logf("too fast: %v", n.sum(t, "qosmutex_gateway_refused_total", `"too_fast"`))
			eve.publish(t, gate+"eve/request", []byte(`{"op":"gone"}`), false)
		}},
		{"many requests at the front", func(t *testing.T, eve *raw) {
			for i := range 300 {
				eve.publish(t, gate+"eve/request", fmt.Appendf(nil, `{"op":"acquire","id":"f%d","resource":"r%d","priority":-9223372036854775808,"lease":1e300,"hold":1e-300,"within":1e18}`, i, i), false)
				eve.publish(t, gate+"eve/request", fmt.Appendf(nil, `{"op":"raise","id":"f%d","priority":-9223372036854775809}`, i), false)
			}
			eve.publish(t, gate+"eve/request", []byte(`{"op":"gone"}`), false)
		}},
		{"huge and malformed", func(t *testing.T, eve *raw) {
			for reason, payloads := range map[string][][]byte{
				"too_large": {bytes.Repeat([]byte("["), 900_000), append([]byte(`{"op":"acquire","id":"`), bytes.Repeat([]byte("x"), tooLarge)...)},
				"malformed": {[]byte(`{"op":`), []byte("\xff\xfe"), nil, []byte(`{"op":"acquire","id":{}}`), []byte(strings.Repeat("[", 1000)), []byte(`{"op":"acquire","id":"1","priority":1e99}`)},
			} {
				n.grows(t, float64(10*len(payloads)), "qosmutex_gateway_refused_total", "", func() {
					for range 10 {
						for _, p := range payloads {
							eve.publish(t, gate+"eve/request", p, false)
						}
						time.Sleep(5 * time.Millisecond)
					}
				})
				t.Logf("%s: %v", reason, n.sum(t, "qosmutex_gateway_refused_total", `"`+reason+`"`))
			}
		}},
		{"wills", func(t *testing.T, _ *raw) {
			n.grows(t, 2, refused, `"will"`, func() {
				for _, topic := range []string{"lock/gate/client/esp/request", "lock/gate/client/esp/answer"} {
					if _, code := n.enter(t, "eve", "eve", r+topic); code == 0 {
						t.Errorf("a will on %s was accepted", topic)
					}
				}
			})
		}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			h.during(t, func() {
				attack.run(t, n.as(t, "eve"))
				d.goOn(t)
			})
		})
	}
	if cost := n.memory(t, "VmHWM") - base; cost > 200<<20 {
		t.Errorf("the attacks have cost %d MB", cost>>20)
	}
}
