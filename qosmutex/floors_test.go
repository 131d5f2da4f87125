package qosmutex

import (
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// As TestFounderStartsAboveWhatTheBrokerRemembers, at the chosen broker: one that
// returns no retained message for a wildcard must not make fences go back.
func TestFounderAsksForTheStateOfEachDeclaredResource(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	p := join(t, url, "a")
	ahead := uint64(time.Now().Add(24 * time.Hour).UnixMicro())
	state := []byte(`{"topic":"t","resource":"truck","fence":"` + formatFence(ahead) + `","epoch":"1.x","root":"old"}`)
	if err := p.PublishRaw(pubsub.Main, []string{"lock", "t", "truck", "state"}, state, true); err != nil {
		t.Fatal(err)
	}
	late := join(t, url, "b")
	eventually(t, "the broker retains it", func() bool {
		return len(subscribe(t, late, "lock", "t", "truck", "state").now()) > 0
	})
	topic := open(t, join(t, url, "founder"), "t", Found(), WithResources("crane", "truck"))
	h := lock(t, topic, "crane")
	if h.Fence() <= ahead {
		t.Errorf("fence %d, the broker remembers %d", h.Fence(), ahead)
	}
	unlock(t, h)
}

// A root that decided alone was cut off. Before it founds the topic again it looks at
// what others have left meanwhile, whose clocks may be ahead of its own.
func TestWhoFoundsAgainStartsAboveWhatOthersLeft(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	cable := startProxy(t, url)
	root := open(t, join(t, cable.url(), "root"), "t", Found(), WithResources("crane"))
	unlock(t, lock(t, root, "crane"))
	cable.cut(true)
	becomes(t, root, "about to found the topic", func(s *protocol.Status) bool { return s.Role == protocol.Founding })
	ahead := uint64(time.Now().Add(24 * time.Hour).UnixMicro())
	state := []byte(`{"topic":"t","resource":"crane","fence":"` + formatFence(ahead) + `","epoch":"1.x","root":"other"}`)
	if err := join(t, url, "other").PublishRaw(pubsub.Main, []string{"lock", "t", "crane", "state"}, state, true); err != nil {
		t.Fatal(err)
	}
	late := join(t, url, "late")
	eventually(t, "the broker retains it", func() bool {
		all := subscribe(t, late, "lock", "t", "crane", "state").now()
		return len(all) > 0 && strings.Contains(string(all[0].Payload), formatFence(ahead))
	})
	cable.cut(false)
	h := lock(t, root, "crane")
	if h.Fence() <= ahead {
		t.Errorf("fence %d, others have left %d", h.Fence(), ahead)
	}
	unlock(t, h)
}

// Its connection comes back for a moment, and is lost again while it listens. What was
// read in that moment is out of date when the connection is back for good.
func TestWhoFoundsAgainReadsAnewAfterEachLossOfTheConnection(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	cable := startProxy(t, url)
	p := join(t, cable.url(), "root")
	root := open(t, p, "t", Found(), WithResources("crane"))
	unlock(t, lock(t, root, "crane"))
	late := subscribe(t, join(t, url, "late"), "lock", "t", "crane", "state")
	cable.cut(true)
	becomes(t, root, "about to found the topic", func(s *protocol.Status) bool { return s.Role == protocol.Founding })
	cable.cut(false)
	eventually(t, "the floors are read", func() bool {
		root.mu.Lock()
		defer root.mu.Unlock()
		return root.barriers.last > 1 && len(root.barriers.waiting) == 0
	})
	cable.cut(true)
	becomes(t, root, "still about to found the topic", func(s *protocol.Status) bool { return s.Role == protocol.Founding })
	ahead := uint64(time.Now().Add(24 * time.Hour).UnixMicro())
	state := []byte(`{"topic":"t","resource":"crane","fence":"` + formatFence(ahead) + `","epoch":"1.x","root":"other"}`)
	if err := join(t, url, "other").PublishRaw(pubsub.Main, []string{"lock", "t", "crane", "state"}, state, true); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the broker retains it", func() bool {
		all := late.now()
		return len(all) > 0 && strings.Contains(string(all[len(all)-1].Payload), formatFence(ahead))
	})
	cable.cut(false)
	h := lock(t, root, "crane")
	if h.Fence() <= ahead {
		t.Errorf("fence %d, others have left %d", h.Fence(), ahead)
	}
	unlock(t, h)
}

// While a founder reads what the broker retains there is no machine yet; the connection
// may be lost and come back then.
func TestReconnectionWhileATopicIsOpened(t *testing.T) {
	t.Parallel()
	p := join(t, startBroker(t, "127.0.0.1:0").URL(), "founder")
	o, err := optionsOf([]Option{Found()})
	if err != nil {
		t.Fatal(err)
	}
	topic := newTopic(p, "t", o)
	if err := topic.metrics.register(topic); err != nil {
		t.Fatal(err)
	}
	go topic.publisher()
	if err := topic.listen(testContext(t)); err != nil {
		t.Fatal(err)
	}
	topic.reconnected(true)
	closeTopic(t, topic)
}
