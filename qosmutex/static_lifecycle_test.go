package qosmutex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

func named(t testing.TB, name string) protocol.Algorithm {
	t.Helper()
	a, err := AlgorithmNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) warnings(word string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, word) {
			n++
		}
	}
	return n
}

func (j *journal) says(words string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), words)
}

func (j *journal) option() Option {
	return WithLogger(slog.New(slog.NewTextHandler(j, nil)))
}

// Who draws the same chances as another backs off as long, and meets it again for
// ever. Ids and incarnations are often neighbours.
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

// A static algorithm has no models: whoever sets them is told so, and does not wait.
func TestStaticAlgorithmsHaveNoModels(t *testing.T) {
	t.Parallel()
	p := join(t, startBroker(t, "127.0.0.1:0").URL(), "a")
	topic := openStatic(t, p, named(t, "central"), []string{"a"})
	if err := topic.SetModels(testContext(t), models(t, "fair-forward-use-use")); !errors.Is(err, ErrUnsupported) {
		t.Errorf("SetModels: %v", err)
	}
	if _, err := Open(testContext(t), p, "other", WithAlgorithm(named(t, "central")), WithMembers("a"), WithModels(Models{})); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("WithModels: %v", err)
	}
	if _, err := topic.Lock(testContext(t), Any); !errors.Is(err, ErrUnsupported) {
		t.Errorf("Any: %v", err)
	}
	if _, err := topic.Lock(testContext(t), "ship"); !errors.Is(err, ErrUndeclared) {
		t.Errorf("an undeclared resource: %v", err)
	}
}

// A member that is started again can take no part, and the logs of both sides say
// so, once. When all are started again, everything works.
func TestAStaticMemberThatIsStartedAgainIsReported(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	logs := make([]journal, 3)
	members := trio
	central := named(t, "central")
	var ps []*pubsub.Participant
	var topics []*Topic
	for i, id := range members {
		ps = append(ps, join(t, url, id))
		topics = append(topics, openStatic(t, ps[i], central, members, logs[i].option()))
	}
	for _, topic := range topics {
		unlock(t, lock(t, topic, "crane"))
	}
	var again journal
	for i := range topics { // one by one
		closeTopic(t, topics[i])
		var j *journal
		if j = &logs[i]; i == 1 {
			j = &again
		}
		topics[i] = openStatic(t, ps[i], central, members, j.option())
		if i == 1 { // asks the server, which was started again as well: fine
			unlock(t, lock(t, topics[1], "crane"))
		}
		if i == 0 { // c knows the server of before
			_, err := topics[2].Lock(shortly(t), "crane")
			if !errors.Is(err, ErrTimeout) {
				t.Errorf("c and the new server: %v", err)
			}
			eventually(t, "the new server says that c speaks to the former one", func() bool { return logs[0].warnings("peer=c") == 1 })
		}
	}
	for _, topic := range topics {
		unlock(t, lock(t, topic, "crane"))
	}
	if n := logs[0].warnings("peer=c"); n != 1 {
		t.Errorf("said %d times", n)
	}
	topics[0].mu.Lock()
	defer topics[0].mu.Unlock()
	if topics[0].metrics.dropped[dropPeer] == 0 {
		t.Error("not counted")
	}
}

// A server that does not know a client's former run says so, and the client's new
// run waits.
func TestAStaticClientThatIsStartedAgainIsReported(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	var j journal
	central := named(t, "central")
	openStatic(t, join(t, url, "a"), central, trio, j.option())
	p := join(t, url, "b")
	topic := openStatic(t, p, central, trio)
	unlock(t, lock(t, topic, "crane"))
	closeTopic(t, topic)
	topic = openStatic(t, p, central, trio)
	if _, err := topic.Lock(shortly(t), "crane"); !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
	if n := j.warnings("peer=b"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// Members that were given in another order would each have a server of their own.
func TestStaticMembersThatDisagreeAreReported(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	var j journal
	openStatic(t, join(t, url, "a"), named(t, "central"), []string{"a", "b"}, j.option())
	b := openStatic(t, join(t, url, "b"), named(t, "token-ring"), []string{"a", "b"})
	if _, err := b.Lock(shortly(t), "crane"); !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
	if n := j.warnings("disagrees"); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// What is retained in the end is that nobody is inside, also when the first member,
// who says so, is the one who was, and closes.
func TestStateAfterTheFirstMemberHasClosed(t *testing.T) {
	t.Parallel()
	url := startWithFreshStates(t)
	watcher := join(t, url, "watcher")
	check := func(topic *Topic, name string) {
		h := lock(t, topic, "crane")
		eventually(t, "the state says who holds", func() bool { return collectStates(t, watcher, name, 1)["crane"].Holder == topic.self.ID })
		closeTopic(t, topic)
		eventually(t, "the state says that nobody does", func() bool {
			s := collectStates(t, watcher, name, 1)["crane"]
			return s.Holder == "" && s.Fence == formatFence(h.Fence())
		})
	}
	for i, a := range statics() {
		name := fmt.Sprint("t", i)
		check(open(t, join(t, url, name), name, WithAlgorithm(a), WithMembers(name), WithResources("crane")), name)
	}
	check(open(t, join(t, url, "p"), "padme", Create(), WithResources("crane")), "padme")
	topics := trioOf(t, url, named(t, "central"))
	unlock(t, lock(t, topics[1], "crane"))
	check(topics[0], "yard")
}

// The retained state follows entries of the first member and of others, and comes
// right after their connections were cut while they left.
func TestStateOfAStaticAlgorithm(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	watcher := join(t, url, "watcher")
	central := named(t, "central")
	var topics []*Topic
	var cables []*proxy
	for _, id := range trio {
		cable := startProxy(t, url)
		cables = append(cables, cable)
		topics = append(topics, openStatic(t, join(t, cable.url(), id), central, trio))
	}
	says := func(holder string, fence uint64) {
		t.Helper()
		eventually(t, "the state names the holder "+holder, func() bool {
			s := collectStates(t, watcher, "yard", 1)["crane"]
			return s.Holder == holder && s.Fence == formatFence(fence)
		})
	}
	for range 2 {
		for i, topic := range topics {
			h := lock(t, topic, "crane")
			says(topic.self.ID, h.Fence())
			cables[i].cut(true)
			unlock(t, h)
			cables[i].cut(false)
			says("", h.Fence())
		}
	}
}

// A release that is lost with the connection is sent again before Close returns.
func TestCloseSeesToItsRelease(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"central", "ricart-agrawala", "raymond"} {
		t.Run(name, func(t *testing.T) {
			url := startBroker(t, "127.0.0.1:0").URL()
			cable := startProxy(t, url)
			a := named(t, name)
			members := []string{"a", "b"}
			stays := openStatic(t, join(t, url, "a"), a, members)
			leaves := openStatic(t, join(t, cable.url(), "b"), a, members)
			for range 3 {
				unlock(t, lock(t, leaves, "crane"))
			}
			lock(t, leaves, "crane")
			waiting := make(chan error)
			go func() {
				h, err := stays.Lock(testContext(t), "crane")
				if err == nil {
					err = h.Unlock(testContext(t))
				}
				waiting <- err
			}()
			eventually(t, "the one that leaves has been asked, where that is not the server's affair", func() bool {
				leaves.mu.Lock()
				defer leaves.mu.Unlock()
				return name == "central" || leaves.metrics.received[protocol.KindRequest] > 0
			})
			cable.cut(false)
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
	url := startBroker(t, "127.0.0.1:0").URL()
	stranger := join(t, url, "b")
	from := protocol.Node{ID: "b", Incarnation: 7}
	padme, _ := group(t, url, "t", 0)
	for _, topic := range []*Topic{padme, openStatic(t, join(t, url, "a"), named(t, "central"), []string{"a", "b"})} {
		const many = 100
		for i := range many {
			for _, kind := range []protocol.Kind{protocol.KindRequest, protocol.KindRelease} {
				m := protocol.Message{
					Kind: kind, From: from, To: topic.self, Seq: uint64(i) + 1, Link: 1, Clock: 5, Resource: fmt.Sprint("r", i),
					ID: protocol.RequestID{Node: from, Clock: 3},
				}
				if err := stranger.Send(topic.self.ID, topic.channel, protocol.AppendMessage(nil, &m)); err != nil {
					t.Fatal(err)
				}
			}
		}
		eventually(t, "all have come", func() bool {
			topic.mu.Lock()
			defer topic.mu.Unlock()
			return topic.metrics.received[protocol.KindRelease] == many
		})
		topic.mu.Lock()
		if n := len(topic.board.resources); n > 2 {
			t.Errorf("%s: %d states are kept for two resources", topic.algorithm.Name, n)
		}
		topic.mu.Unlock()
	}
}

// shortly bounds the waiting for what will not come.
func shortly(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
