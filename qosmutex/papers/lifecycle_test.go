package papers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
	"padme/tests/brokers"
	"padme/tests/cable"
	"padme/tests/capture"
	"padme/tests/poll"
)

func named(t testing.TB, name string) protocol.Algorithm {
	t.Helper()
	a, err := AlgorithmNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// logTo has a topic log to a text.
func logTo(text *capture.Text) func(*Config) {
	return func(cfg *Config) { cfg.Logger = text.Logger() }
}

// Who draws the same chances as another backs off as long, and meets it again for
// ever. Ids and incarnations are often neighbors.
func TestEveryMemberHasChancesOfItsOwn(t *testing.T) {
	seen := map[uint64]protocol.Node{}
	for incarnation := range uint64(64) {
		for _, id := range []string{"a", "b", "c", "d", "aa", "ab", "ba"} {
			n := protocol.Node{ID: id, Incarnation: 1795235569073900 + incarnation}
			if o, twice := seen[seedOf(n)]; twice {
				t.Fatalf("%+v and %+v", n, o)
			}
			seen[seedOf(n)] = n
		}
	}
}

// A member that is started again can take no part, and the logs of both sides say
// so, once. When all are started again, everything works.
func TestAMemberThatIsStartedAgainIsReported(t *testing.T) {
	t.Parallel()
	url := brokers.Use(t)
	logs := make([]capture.Text, 3)
	members := trio
	central := named(t, "central")
	var ps []*pubsub.Participant
	var topics []*Topic
	for i, id := range members {
		ps = append(ps, join(t, url, id))
		topics = append(topics, openMember(t, ps[i], central, members, logTo(&logs[i])))
	}
	for _, topic := range topics {
		unlock(t, lock(t, topic, "crane"))
	}
	var again capture.Text
	for i := range topics { // one by one
		closeTopic(t, topics[i])
		var log *capture.Text
		if log = &logs[i]; i == 1 {
			log = &again
		}
		topics[i] = openMember(t, ps[i], central, members, logTo(log))
		if i == 1 { // asks the server, which was started again as well: fine
			unlock(t, lock(t, topics[1], "crane"))
		}
		if i == 0 { // c knows the server of before
			_, err := topics[2].Lock(shortly(t), "crane")
			if !errors.Is(err, qosmutex.ErrTimeout) {
				t.Errorf("c and the new server: %v", err)
			}
			poll.Until(t, "the new server says that c speaks to the former one", func() bool { return logs[0].Lines("level=WARN", "peer=c") == 1 })
		}
	}
	for _, topic := range topics {
		unlock(t, lock(t, topic, "crane"))
	}
	if n := logs[0].Lines("level=WARN", "peer=c"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// A server that does not know a client's former run says so, and the client's new
// run waits.
func TestAClientThatIsStartedAgainIsReported(t *testing.T) {
	t.Parallel()
	url := brokers.Use(t)
	var log capture.Text
	central := named(t, "central")
	openMember(t, join(t, url, "a"), central, trio, logTo(&log))
	p := join(t, url, "b")
	topic := openMember(t, p, central, trio)
	unlock(t, lock(t, topic, "crane"))
	closeTopic(t, topic)
	topic = openMember(t, p, central, trio)
	if _, err := topic.Lock(shortly(t), "crane"); !errors.Is(err, qosmutex.ErrTimeout) {
		t.Errorf("%v", err)
	}
	if n := log.Lines("level=WARN", "peer=b"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// Members that were given in another order would each have a server of their own.
func TestMembersThatDisagreeAreReported(t *testing.T) {
	t.Parallel()
	url := brokers.Use(t)
	var log capture.Text
	openMember(t, join(t, url, "a"), named(t, "central"), []string{"a", "b"}, logTo(&log))
	b := openMember(t, join(t, url, "b"), named(t, "token-ring"), []string{"a", "b"})
	if _, err := b.Lock(shortly(t), "crane"); !errors.Is(err, qosmutex.ErrTimeout) {
		t.Errorf("%v", err)
	}
	if n := log.Lines("level=WARN", "disagrees"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// What is retained in the end is that nobody is inside, also when the first member,
// who says so, is the one who was, and closes.
func TestStateAfterTheFirstMemberHasClosed(t *testing.T) {
	t.Parallel()
	url := freshStates(t)
	watcher := join(t, url, "watcher")
	check := func(topic *Topic, name string) {
		h := lock(t, topic, "crane")
		poll.Until(t, "the state says who holds", func() bool { return stateOf(t, watcher, name).Holder == topic.self.ID })
		closeTopic(t, topic)
		poll.Until(t, "the state says that nobody does", func() bool {
			s := stateOf(t, watcher, name)
			return s.Holder == "" && s.Fence == fmt.Sprint(h.Fence())
		})
	}
	for i, a := range statics() {
		name := fmt.Sprint("t", i)
		check(open(t, join(t, url, name), name, Config{Algorithm: a, Members: []string{name}, Resources: []string{"crane"}}), name)
	}
	topics := trioOf(t, url, named(t, "central"))
	unlock(t, lock(t, topics[1], "crane"))
	check(topics[0], "yard")
}

// The retained state follows entries of the first member and of others, and comes
// right after their connections were cut while they left.
func TestStateFollowsEntries(t *testing.T) {
	t.Parallel()
	url := freshStates(t)
	watcher := join(t, url, "watcher")
	central := named(t, "central")
	var topics []*Topic
	var cables []*cable.Cable
	for _, id := range trio {
		c := cable.New(cable.TCP(url))
		cables = append(cables, c)
		topics = append(topics, openMember(t, join(t, url, id, pubsub.WithDialer(c.Dial)), central, trio))
	}
	says := func(holder string, fence uint64) {
		t.Helper()
		poll.Until(t, "the state names the holder "+holder, func() bool {
			s := stateOf(t, watcher, "yard")
			return s.Holder == holder && s.Fence == fmt.Sprint(fence)
		})
	}
	for range 2 {
		for i, topic := range topics {
			h := lock(t, topic, "crane")
			says(topic.self.ID, h.Fence())
			cables[i].Cut()
			unlock(t, h)
			cables[i].Restore()
			says("", h.Fence())
		}
	}
}

// A release that is lost with the connection is sent again before Close returns.
func TestCloseSeesToItsRelease(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"central", "ricart-agrawala", "raymond"} {
		t.Run(name, func(t *testing.T) {
			url := brokers.Use(t)
			c := cable.New(cable.TCP(url))
			a := named(t, name)
			members := []string{"a", "b"}
			var asked atomic.Int32
			stays := openMember(t, join(t, url, "a"), a, members)
			leaves := openMember(t, join(t, url, "b", pubsub.WithDialer(c.Dial)), counting(a, &asked), members)
			for range 3 {
				unlock(t, lock(t, leaves, "crane"))
			}
			lock(t, leaves, "crane")
			waiting := make(chan error)
			go func() {
				h, err := stays.Lock(testContext(t), "crane")
				if err == nil {
					err = h.Unlock()
				}
				waiting <- err
			}()
			poll.Until(t, "the one that leaves has been asked, where that is not the server's affair", func() bool {
				return name == "central" || asked.Load() > 0
			})
			c.Break()
			// Close gives up after a second, in which a busy machine may not have
			// connected again: this is Close with more patience.
			leaves.closeWithin(testContext(t), time.Minute)
			if err := <-waiting; err != nil {
				t.Error(err)
			}
		})
	}
}

// Messages about resources that the topic does not have leave nothing behind.
func TestForeignResourcesAreNotKept(t *testing.T) {
	t.Parallel()
	url := brokers.Use(t)
	stranger := join(t, url, "b")
	from := protocol.Node{ID: "b", Incarnation: 7}
	topic := openMember(t, join(t, url, "a"), named(t, "central"), []string{"a", "b"})
	const many = 100
	for i := range many {
		m := protocol.Message{
			Kind: protocol.KindRequest, From: from, To: topic.self, Seq: uint64(i) + 1, Clock: 5, Resource: fmt.Sprint("r", i),
			ID: protocol.RequestID{Node: from, Clock: 3},
		}
		if err := stranger.Send(topic.self.ID, topic.channel, protocol.AppendMessage(nil, &m)); err != nil {
			t.Fatal(err)
		}
		event := fmt.Sprintf(`{"event":"granted","topic":"yard","resource":"r%d","participant":"b","fence":"7"}`, i)
		if err := stranger.PublishRaw(pubsub.Main, []string{"lock", "yard", "events"}, []byte(event), false); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "all have come", func() bool { return topic.Status().Counters.Invalid == many })
	topic.mu.Lock()
	defer topic.mu.Unlock()
	if n := len(topic.reports.states); n > 2 || len(topic.machine.Status().Resources) > 2 {
		t.Errorf("%d states are kept for two resources", n)
	}
}

// shortly bounds the waiting for what will not come.
func shortly(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
