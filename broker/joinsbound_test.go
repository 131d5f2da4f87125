package broker

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"padme/tests/bubble"
)

// What is beyond the limit is charged as several packets, what is within it as what it is.
func TestAJoinThatIsNotDeliveredCostsMore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, _ := limitedInTest()
		b.cfg.Limits = DefaultLimits()
		h := &flow{counts: &counters{}, log: slog.New(slog.DiscardHandler), direct: &direct{prefix: []byte("padme/v1/")}}
		c := chargedOf(b, "many")
		const topic = "padme/v1/default/lock/crane/join/many"
		for i := range 2 * joinBurst {
			if got, want := h.floods(c, []byte("many"), topic), i >= joinBurst; got != want {
				t.Fatalf("join %d: %v", i, got)
			}
		}
		if want := joinBurst * (joinCost - 1.0); c.readCost != want {
			t.Errorf("charged %v, want %v", c.readCost, want)
		}
		for _, other := range []string{"padme/v1/default/lock/crane/member/many", "padme/v1/default/node/join/many", "else/default/lock/crane/join/many"} {
			for range 2 * joinBurst {
				if h.floods(c, []byte("many"), other) {
					t.Fatalf("%s counts as a join", other)
				}
			}
		}
	})
}

// Ever new topics cost a bounded memory, and together no more than one.
func TestJoinsOfManyTopicsAreBounded(t *testing.T) {
	var j joins
	now := time.Unix(1, 0)
	admitted := 0
	for i := range 10 * joinTopics {
		if j.admit(strconv.Itoa(i), now) {
			admitted++
		}
	}
	if want := joinTopics + joinBurst; admitted != want || len(j.topics) != joinTopics {
		t.Errorf("%d were admitted, want %d, and %d topics are remembered", admitted, want, len(j.topics))
	}
	if now = now.Add(time.Second); !j.admit("one more", now) || len(j.topics) != 1 {
		t.Errorf("a second later %d topics are remembered", len(j.topics))
	}
}
