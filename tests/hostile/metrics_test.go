//go:build linux

package hostile

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"padme/tests/extent"
)

// mostForMetrics is what those who reach the metrics may cost the node, in bytes of resident
// memory.
const mostForMetrics = 64 << 20

// Strangers connect to the metrics by the thousand: with headers that never end, or with
// requests whose answers they do not read.
func TestStrangersAtTheMetrics(t *testing.T) {
	extent.Long(t, "connections that wait")
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	addr := strings.TrimSuffix(strings.TrimPrefix(n.metrics, "http://"), "/metrics")
	base := n.memory(t, "VmRSS")
	for name, load := range map[string][]byte{
		"headers that never end":    append([]byte("GET /metrics HTTP/1.1\r\nHost: a\r\nX: "), bytes.Repeat([]byte("x"), 900_000)...),
		"answers that nobody reads": bytes.Repeat([]byte("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), 1000),
	} {
		t.Run(name, func(t *testing.T) {
			h.during(t, func() {
				var all []net.Conn
				for range 1000 {
					c, err := net.DialTimeout("tcp", addr, time.Second)
					if err != nil {
						break // no more are taken
					}
					all = append(all, c)
					go func() { _, _ = io.Copy(c, bytes.NewReader(load)) }()
				}
				if len(all) < 500 {
					t.Errorf("only %d connections were taken", len(all))
				}
				time.Sleep(flooded)
				n.scrape(t) // others are answered while they stay
				for _, c := range all {
					_ = c.Close()
				}
				t.Logf("%d connections; resident %d MB more at most so far", len(all), (n.memory(t, "VmHWM")-base)>>20)
			})
		})
	}
	if cost := n.memory(t, "VmHWM") - base; cost > mostForMetrics {
		t.Errorf("strangers at the metrics have cost %d MB", cost>>20)
	}
}
