package qosmutex

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
	"padme/tests/bubble"
)

// Alarms come in the order of their times, whatever they were set to before, and not once they
// are canceled.
func TestAlarms(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := new(pubsub.Participant)
		a := useAlarms(p)
		if useAlarms(p) != a {
			t.Error("two of one participant")
		}
		begun := time.Now()
		rang := map[string]time.Duration{}
		topics := map[string]*Topic{}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			topic := &Topic{name: name, alarms: a, options: options{clock: func() protocol.Time {
				rang[name] = time.Since(begun)
				return 0
			}}}
			topic.alarm = alarm{topic: topic, at: protocol.Never, place: -1}
			topic.machine = silent{}
			topics[name] = topic
		}
		move := func(name string, due time.Duration) { a.move(&topics[name].alarm, due) }
		move("a", 5*time.Second)
		move("b", 3*time.Second)
		move("c", 4*time.Second)
		move("d", 3*time.Second)
		move("e", 9*time.Second)
		move("a", time.Second)
		move("b", 7*time.Second)
		a.cancel(&topics["c"].alarm)
		a.cancel(&topics["c"].alarm)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if want, got := "map[a:1s b:7s d:3s]", fmt.Sprint(rang); got != want {
			t.Errorf("they rang at %s, want %s", got, want)
		}
		a.endUse(&topics["a"].alarm)
		select {
		case <-a.done:
			t.Error("the goroutine has ended before the last topic")
		default:
		}
		a.endUse(&topics["e"].alarm)
		<-a.done
		if len(a.set) > 0 || alarmsOf[p] != nil {
			t.Errorf("%d alarms are left", len(a.set))
		}
	})
}

// silent is a machine of which nothing follows.
type silent struct{ machine }

func (silent) Step(_ protocol.Time, _ *protocol.Input, out *protocol.Output) error {
	out.Reset()
	out.WakeAt = protocol.Never
	return nil
}
func (silent) Overview() protocol.Status { return protocol.Status{} }
func (silent) ValidUntil() protocol.Time { return 0 }
func (silent) RulesUntil() protocol.Time { return 0 }

// Topics of a server that nobody uses are stepped together, many times in their leases, and
// renew those with no goroutine of their own; what is held, or waited for, is stepped on time.
func TestUnusedTopicsAreSteppedTogether(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := t.Context()
		p := join("node")
		defer p.Close(ctx)
		register := local.Memory()
		s := newServer(t, p, WithRegister(register), clock)
		defer s.Close()
		topics := make([]*Topic, 20)
		for i := range topics {
			time.Sleep(7 * time.Millisecond) // so that they do not begin together
			topics[i] = topicOf(t, s, fmt.Sprint("zone", i))
			h, err := topics[i].Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			_ = h.Unlock()
		}
		q := join("standby")
		defer q.Close(ctx)
		standby, err := Open(ctx, q, "zone1", WithRegister(register), clock)
		if err != nil {
			t.Fatal(err)
		}
		defer standby.Close(ctx)
		time.Sleep(5 * time.Second)
		standby.mu.Lock()
		if standby.status.Role != protocol.Member || standby.unused() {
			t.Errorf("one that waits to take over is %v, and unused: %v", standby.status.Role, standby.unused())
		}
		standby.mu.Unlock()
		slot := LAN().TTL / slots
		inSlots := func(topic *Topic) bool {
			topic.mu.Lock()
			defer topic.mu.Unlock()
			return topic.alarm.due%slot == 0
		}
		for range 50 {
			time.Sleep(31 * time.Millisecond)
			synctest.Wait()
			for _, topic := range topics {
				if !inSlots(topic) {
					t.Fatalf("%s is stepped %v after the beginning of a slot", topic.name, topic.alarm.due%slot)
				}
			}
		}
		h, err := topics[0].Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(31 * time.Millisecond)
			synctest.Wait()
			topics[0].mu.Lock()
			unused, next := topics[0].unused(), topics[0].alarm.due-time.Since(topics[0].alarms.begun)
			topics[0].mu.Unlock()
			if unused || next > LAN().TTL/10 {
				t.Fatalf("a topic that is in use is taken for unused: %v, and next stepped after %v", unused, next)
			}
		}
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		_ = h.Unlock()
	})
}
