package qosmutex

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/tests/capture"
)

// A member that invents incarnations is counted by the root, and named once a minute.
func TestInventedIncarnationsAreTold(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("root"), join("mallory")
		defer p.Close(ctx)
		defer q.Close(ctx)
		var log capture.Text
		metrics := prometheus.NewRegistry()
		topic, err := Open(ctx, p, "crane", Create(), clock, WithMetrics(metrics), WithLogger(log.Logger()))
		if err != nil {
			t.Fatal(err)
		}
		defer topic.Close(ctx)
		time.Sleep(time.Minute) // a new root first hears of the members of the one before
		for i, want := range []int{1, 1, 2} {
			if i == 2 {
				time.Sleep(time.Minute)
			}
			for n := range uint64(20) {
				m := protocol.Message{Kind: protocol.KindBeat, From: protocol.Node{ID: "mallory", Incarnation: 1000 + uint64(i)*100 + n}, To: topic.self, Attempt: 1, Sent: protocol.Time(n + 1)}
				if err := q.Post("root", "lock/crane", protocol.AppendMessage(nil, &m)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			line := `msg="limit reached" participant=root limit=incarnations most=8 from=mallory lock=crane remedy="see whether`
			if n := strings.Count(log.String(), line); n != want {
				t.Fatalf("round %d: %d lines, not %d: %s\n%s", i, n, want, line, log.String())
			}
		}
		if n := gathered(t, metrics, "qosmutex_limited_total", "incarnations"); n < 20 {
			t.Errorf("%v are counted", n)
		}
	})
}

// Each limit of a lock topic has a line of its own for each participant, and one for all topics of
// a server.
func TestExcessesAreTold(t *testing.T) {
	virtually(t, func(t *testing.T, _ func(string) *pubsub.Participant, _ Option) {
		var log capture.Text
		reached := newExcesses(log.Logger())
		for range 3 {
			for _, lock := range []string{"crane", "yard"} {
				topic := &Topic{options: options{reached: reached}, name: lock}
				for limit := range protocol.LimitEnd {
					topic.out.Excesses = append(topic.out.Excesses, protocol.Excess{Limit: limit, From: "mallory", Most: 7})
				}
				topic.tellExcesses()
				time.Sleep(time.Second)
			}
		}
		for _, limit := range machineLimits {
			if line := fmt.Sprintf(`msg="limit reached" limit=%s most=7 from=mallory lock=crane remedy="`, limit.Name); limit.Remedy == "" || strings.Count(log.String(), line) != 1 {
				t.Errorf("not once: %s\n%s", line, log.String())
			}
		}
		if n := strings.Count(log.String(), "\n"); n != int(protocol.LimitEnd) {
			t.Errorf("%d lines: %s", n, log.String())
		}
	})
}
