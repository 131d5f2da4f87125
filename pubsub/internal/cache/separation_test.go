package cache

import (
	"testing"
	"time"

	"padme/pubsub/internal/wire"
)

// A sample whose time is over when the cache is full is due as soon as there is room.
func TestWhatHasWaitedIsDueWhenThereIsRoom(t *testing.T) {
	c := New(&Policies{Reliable: true, KeepAll: true, MaxSamples: 2, MaxInstances: 2, TimeBasedFilter: time.Second})
	w := &Writer{GUID: wire.GUID{Participant: "p", Incarnation: 1, Endpoint: "w1"}}
	now := time.Now()
	for i, key := range []string{"a", "a", "b"} { // the second has to wait, and the third takes its room
		if _, err := c.Accept(Sample{Key: key, Writer: w, Seq: uint64(i + 1)}, now); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Second)
	c.Tick(now)
	if due := c.Due(); !due.IsZero() || c.Held() != 2 {
		t.Fatalf("%d samples in a full cache, next due at %v", c.Held(), due)
	}
	c.Collect(1, &Selection{}, true, nil)
	if due := c.Due(); due.IsZero() || due.After(now) {
		t.Errorf("due at %v although there is room now, at %v", due, now)
	}
	c.Tick(now)
	if got := c.Collect(9, &Selection{}, true, nil); len(got) != 2 || got[1].Seq != 2 {
		t.Errorf("%d samples, the last is %+v", len(got), got[len(got)-1].Sample)
	}
}
