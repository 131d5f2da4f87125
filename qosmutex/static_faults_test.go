package qosmutex

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex/protocol"
)

var trio = []string{"a", "b", "c"}

// statics are the algorithms that need WithMembers; the one which is there to
// deadlock and the one which is there to let two in are left out.
func statics() []protocol.Algorithm {
	var all []protocol.Algorithm
	for _, a := range Algorithms() {
		if a.Static && a.Name != "maekawa-naive" && a.Name != "voting-forgetful" {
			all = append(all, a)
		}
	}
	return all
}

// openStatic opens topic "yard" of a static algorithm at one of the members.
func openStatic(t testing.TB, p *pubsub.Participant, a protocol.Algorithm, members []string, opts ...Option) *Topic {
	t.Helper()
	return open(t, p, "yard", append([]Option{WithAlgorithm(a), WithMembers(members...), WithResources("crane", "truck")}, opts...)...)
}

// trioOf opens the topic at three members.
func trioOf(t testing.TB, url string, a protocol.Algorithm, opts ...Option) []*Topic {
	t.Helper()
	var topics []*Topic
	for _, id := range trio {
		topics = append(topics, openStatic(t, join(t, url, id), a, trio, opts...))
	}
	return topics
}

// Connections are cut again and again, at each of the members in turn.
func TestStaticAlgorithmsSurviveCutConnections(t *testing.T) {
	for _, a := range statics() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			url := startBroker(t, "127.0.0.1:0").URL()
			var proxies []*proxy
			var topics []*Topic
			for _, id := range trio {
				p := startProxy(t, url)
				proxies = append(proxies, p)
				topics = append(topics, openStatic(t, join(t, p.url(), id), a, trio))
			}
			done := make(chan struct{})
			var cutter sync.WaitGroup
			cutter.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					case <-time.After(150 * time.Millisecond):
						proxies[i%len(proxies)].cut(false)
					}
				}
			})
			enterDespiteFaults(t, topics, 2*time.Second)
			close(done)
			cutter.Wait()
			for _, topic := range topics {
				unlock(t, lock(t, topic, "crane"))
			}
		})
	}
}

func TestStaticAlgorithmsSurviveARestartedBroker(t *testing.T) {
	for _, a := range statics() {
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
					stopBroker(t, b)
					again, err := broker.Start(testContext(t), broker.Config{TCP: addr, DataDir: data})
					if err != nil {
						t.Error(err)
						return
					}
					t.Cleanup(func() { stopBroker(t, again) })
				}()
				enterDespiteFaults(t, topics, 2*time.Second)
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

// The others ask long before the last member opens, which is the first of Members
// in one run and the last in the other.
func TestStaticMemberThatComesLate(t *testing.T) {
	for _, a := range statics() {
		for late := range trio {
			t.Run(a.Name+"/"+trio[late], func(t *testing.T) {
				t.Parallel()
				url := startBroker(t, "127.0.0.1:0").URL()
				var g guarded
				var all sync.WaitGroup
				visit := func(topic *Topic) {
					h, err := topic.Lock(testContext(t), "crane")
					if err != nil {
						t.Error(err)
						return
					}
					g.visit(t, h)
					unlock(t, h)
				}
				for i, id := range trio {
					if i != late {
						topic := openStatic(t, join(t, url, id), a, trio)
						for range 3 {
							all.Go(func() { visit(topic) })
						}
					}
				}
				time.Sleep(2 * time.Second)
				topic := openStatic(t, join(t, url, trio[late]), a, trio)
				begin := time.Now()
				all.Go(func() { visit(topic) })
				all.Wait()
				if n := g.entries.Load(); n != 7 || time.Since(begin) > 5*time.Second {
					t.Errorf("%d entries %v after the last one came", n, time.Since(begin))
				}
			})
		}
	}
}

// Many goroutines of every participant, some of which lose patience, lock two
// resources and change priorities.
func TestStaticAlgorithmsUnderManyGoroutines(t *testing.T) {
	for _, a := range statics() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			topics := trioOf(t, startBroker(t, "127.0.0.1:0").URL(), a)
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
							_ = topic.SetPriority(ctx, int64((who+i)%8))
							var h *Hold
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
							case !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrBusy):
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
