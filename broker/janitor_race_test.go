package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
)

// A participant that comes back just when it is to be cleared has its birth retained, and
// what it announces after it.
func TestABirthIsNotCleared(t *testing.T) {
	b, err := Start(context.Background(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.Background())
	j := janitor{b: b, guard: b.guard}
	const presence, endpoint = "padme/v1/d/presence/p", "padme/v1/d/ep/t/p/w1"
	put := func(topic string, epoch int, alive bool) {
		payload := fmt.Sprintf(`{"alive":%v,"incarnation":"1","epoch":"%d"}`, alive, epoch)
		if err := b.server.Publish(topic, []byte(payload), true, 1); err != nil {
			t.Error(err)
		}
	}
	cleared := 0
	for epoch := range 2000 {
		put(endpoint, epoch, true)
		put(presence, epoch, false)
		dead, _ := b.server.Topics.Retained.Get(presence)
		var both sync.WaitGroup
		both.Go(func() {
			if j.clear(presence, string(dead.Payload), "d", "p", life{Incarnation: 1, Epoch: uint64(epoch)}) {
				cleared++
			}
		})
		both.Go(func() {
			put(presence, epoch+1, true)
			put(endpoint, epoch+1, true)
		})
		both.Wait()
		for _, topic := range []string{presence, endpoint} {
			want := fmt.Sprintf(`{"alive":true,"incarnation":"1","epoch":"%d"}`, epoch+1)
			if pk, _ := b.server.Topics.Retained.Get(topic); string(pk.Payload) != want {
				t.Fatalf("%s is %q, want %q", topic, pk.Payload, want)
			}
		}
	}
	t.Logf("of 2000 that came back %d had been cleared before", cleared)
}
