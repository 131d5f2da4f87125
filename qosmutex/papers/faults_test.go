package papers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/protocol"
	"padme/tests/brokers"
	"padme/tests/cable"
)

var trio = []string{"a", "b", "c"}

// statics are the algorithms that Open runs, but the one that is there to deadlock and the
// one that is there to let two in.
func statics() []protocol.Algorithm {
	var all []protocol.Algorithm
	for _, a := range Algorithms() {
		if a.Static && a.Name != "maekawa-naive" && a.Name != "voting-forgetful" {
			all = append(all, a)
		}
	}
	return all
}

// oneOfEachKind lists one algorithm of each kind.
func oneOfEachKind(t testing.TB) (some []protocol.Algorithm) {
	for _, name := range []string{"central", "token-ring", "lamport", "maekawa", "voting", "suzuki-kasami", "naimi-trehel", "level", "edf-ack-b1"} {
		some = append(some, named(t, name))
	}
	return some
}

// openMember opens topic "yard" at one of the members.
func openMember(t testing.TB, p *pubsub.Participant, a protocol.Algorithm, members []string, change ...func(*Config)) *Topic {
	t.Helper()
	cfg := Config{Algorithm: a, Members: members, Resources: []string{"crane", "truck"}, Priority: 100, Hop: 2 * time.Millisecond}
	for _, f := range change {
		f(&cfg)
	}
	return open(t, p, "yard", cfg)
}

// trioOf opens the topic at three members.
func trioOf(t testing.TB, url string, a protocol.Algorithm) []*Topic {
	t.Helper()
	var topics []*Topic
	for _, id := range trio {
		topics = append(topics, openMember(t, join(t, url, id), a, trio))
	}
	return topics
}

// Connections are cut again and again, at each of the members in turn; then each
// of them gets in.
func TestCutConnections(t *testing.T) {
	for _, a := range oneOfEachKind(t) {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			url := brokers.Use(t)
			var cables []*cable.Cable
			var topics []*Topic
			for _, id := range trio {
				c := cable.New(cable.TCP(url))
				cables = append(cables, c)
				topics = append(topics, openMember(t, join(t, url, id, pubsub.WithDialer(c.Dial)), a, trio))
			}
			var cutter sync.WaitGroup
			cutter.Go(func() {
				for i := range 6 {
					time.Sleep(150 * time.Millisecond)
					cables[i%len(cables)].Break()
				}
			})
			enterForASecond(t, topics)
			cutter.Wait()
			for _, topic := range topics {
				unlock(t, lock(t, topic, "crane"))
			}
		})
	}
}

func TestARestartedBroker(t *testing.T) {
	for _, a := range oneOfEachKind(t) {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			for _, data := range []string{"", t.TempDir()} {
				b, err := broker.Start(testContext(t), broker.Config{TCP: "127.0.0.1:0", DataDir: data})
				if err != nil {
					t.Fatal(err)
				}
				addr := b.TCPAddr().String()
				topics := trioOf(t, b.URL(), a)
				done := make(chan struct{})
				go func() {
					defer close(done)
					time.Sleep(200 * time.Millisecond)
					closeBroker(t, b)
					again, err := broker.Start(testContext(t), broker.Config{TCP: addr, DataDir: data})
					if err != nil {
						t.Error(err)
						return
					}
					t.Cleanup(func() { closeBroker(t, again) })
				}()
				enterForASecond(t, topics)
				<-done
				for _, topic := range topics {
					unlock(t, lock(t, topic, "crane"))
				}
				for _, topic := range topics {
					closeTopic(t, topic)
					if err := topic.p.Close(testContext(t)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// The others ask a minute before the last member opens. Until then they let it be
// with few messages, and nobody waits long once it is there.
func TestAMemberThatComesLate(t *testing.T) {
	for _, a := range statics() {
		for late := range trio {
			t.Run(a.Name+"/"+trio[late], func(t *testing.T) {
				virtually(t, func(t *testing.T, join func(string) *pubsub.Participant) { comesLate(t, a, late, join) })
			})
		}
	}
}

func comesLate(t *testing.T, a protocol.Algorithm, late int, join func(string) *pubsub.Participant) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	start := func(id string) *Topic {
		p := join(id)
		topic, err := Open(p, "yard", Config{Algorithm: a, Members: trio, Resources: []string{"crane"}})
		if err != nil {
			t.Fatal(err)
		}
		return topic
	}
	var g guarded
	var all sync.WaitGroup
	visit := func(topic *Topic) {
		h, err := topic.Lock(ctx, "crane")
		if err != nil {
			t.Error(err)
			return
		}
		g.visit(t, h)
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
	}
	var topics []*Topic
	for i, id := range trio {
		if i != late {
			topic := start(id)
			topics = append(topics, topic)
			for range 3 {
				all.Go(func() { visit(topic) })
			}
		}
	}
	time.Sleep(10 * time.Second)
	before := sentBy(topics)
	time.Sleep(50 * time.Second)
	if n := sentBy(topics) - before; a.Name != "token-ring" && n > 50*3 { // an idle ring sends its token round
		t.Errorf("%d messages in 50 s", n)
	}
	topics = append(topics, start(trio[late]))
	begin := time.Now()
	all.Go(func() { visit(topics[2]) })
	all.Wait()
	if n := g.entries.Load(); n != 7 || time.Since(begin) > 2*time.Second {
		t.Errorf("%d entries %v after the last one came", n, time.Since(begin))
	}
	for _, topic := range topics {
		if err := errors.Join(topic.Close(ctx), topic.p.Close(ctx)); err != nil {
			t.Error(err)
		}
	}
}

func sentBy(topics []*Topic) (n uint64) {
	for _, topic := range topics {
		count := topic.Status().Counters
		n += count.Resent
		for _, kind := range count.Sent {
			n += kind
		}
	}
	return n
}

// Many goroutines of every participant, some of which lose patience, lock two
// resources and change priorities.
func TestManyGoroutines(t *testing.T) {
	for _, a := range oneOfEachKind(t) {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			topics := trioOf(t, brokers.Use(t), a)
			g := map[string]*guarded{"crane": {}, "truck": {}}
			var all sync.WaitGroup
			for who, topic := range topics {
				for n := range 4 {
					resource := []string{"crane", "truck"}[n%2]
					all.Go(func() {
						for i := range 12 {
							ctx, cancel := context.WithTimeout(testContext(t), time.Duration(1+i*i)*time.Millisecond)
							if i%3 == 0 {
								ctx = testContext(t)
							}
							_ = topic.SetPriority(int64((who + i) % 8))
							var h *qosmutex.Hold
							var err error
							if i%5 == 4 {
								h, err = topic.TryLock(ctx, resource)
							} else {
								h, err = topic.Lock(ctx, resource)
							}
							switch {
							case err == nil:
								g[resource].visit(t, h)
								unlock(t, h)
							case !errors.Is(err, qosmutex.ErrTimeout) && !errors.Is(err, qosmutex.ErrBusy):
								t.Errorf("%s: %v", topic.self.ID, err)
							}
							cancel()
						}
					})
				}
			}
			all.Wait()
			for _, topic := range topics {
				unlock(t, lock(t, topic, "crane"))
				unlock(t, lock(t, topic, "truck"))
				if r := topic.Status().Resources; r[0].Waiting+r[1].Waiting > 0 {
					t.Errorf("%s: %+v", topic.self.ID, r)
				}
			}
		})
	}
}
