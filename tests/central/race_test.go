package central

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
)

var (
	rounds = flag.Int("rounds", 1, "how often each is measured, by turns")
	round  = flag.Duration("round", 20*time.Millisecond, "for how long each time")
)

// patience bounds what takes no time unless something is broken.
const patience = time.Minute

// contender is one client of any of them.
type contender interface {
	lock(name string) (unlock func() error, err error)
}

// member locks by this project.
type member struct {
	ctx   context.Context
	topic *qosmutex.Topic
}

func (m *member) lock(name string) (func() error, error) {
	h, err := m.topic.Lock(m.ctx, name)
	if err != nil {
		return nil, err
	}
	return h.Unlock, nil
}

// entrant is what takes part in the race under one name, with so many contenders each time.
type entrant struct {
	name  string
	start func(t testing.TB, s *setting) []contender
}

// setting is what all entrants have in common.
type setting struct {
	broker     *broker.Broker
	contenders int
	locks      []string
}

var entrants = []entrant{
	{"central server, a client of the broker", func(t testing.TB, s *setting) []contender {
		startNaiveServer(t, s.broker.URL())
		return s.naive(t, s.broker.URL())
	}},
	{"the same in the broker's process", func(t testing.TB, s *setting) []contender {
		return s.naive(t, startNaiveBroker(t))
	}},
	{"root beside the broker", func(t testing.TB, s *setting) []contender { // as the command broker has it
		return s.members(t, "beside", []pubsub.Option{pubsub.WithDialer(s.broker.Dial)}, qosmutex.WithFanout(64))
	}},
	{"the same, a fan-out of 8", func(t testing.TB, s *setting) []contender {
		return s.members(t, "narrow", []pubsub.Option{pubsub.WithDialer(s.broker.Dial)})
	}},
	{"members among themselves", func(t testing.TB, s *setting) []contender {
		return s.members(t, "apart", nil)
	}},
}

func (s *setting) naive(t testing.TB, url string) (all []contender) {
	for i := range s.contenders {
		all = append(all, newNaiveClient(t, url, fmt.Sprint("c", i)))
	}
	return all
}

// members opens a lock topic at a root that does not contend, and at the contenders.
func (s *setting) members(t testing.TB, topic string, of []pubsub.Option, opts ...qosmutex.Option) (all []contender) {
	open := func(id string, of []pubsub.Option, opts ...qosmutex.Option) *qosmutex.Topic {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		p, err := pubsub.Join(ctx, s.broker.URL(), id, append(of, pubsub.WithDomain(topic))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end(t, p.Close) })
		lock, err := qosmutex.Open(ctx, p, topic, opts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end(t, lock.Close) })
		return lock
	}
	if *rounds == 1 { // together with other tests, on a machine that may be busy
		opts = append(opts, qosmutex.WithTiming(qosmutex.LAN().WithTTL(8*time.Second)))
	}
	open("root", of, append(opts, qosmutex.Create(), qosmutex.WithResources(s.locks...), qosmutex.WithNodePriority(0))...)
	for i := range s.contenders {
		all = append(all, &member{t.Context(), open(fmt.Sprint("m", i), nil)})
	}
	return all
}

func end(t testing.TB, end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := end(ctx); err != nil {
		t.Error(err)
	}
}

// TestRace prints how much faster each is than the central server, which is an ordinary
// client of the broker: medians of rounds in which all take turns. It asserts no time.
func TestRace(t *testing.T) {
	for _, c := range []struct {
		name              string
		contenders, locks int
	}{
		{"7 contenders", 7, 1},
		{"20 contenders", 20, 1},
		{"alone", 1, 1},
		{"1,000 locks, 20 clients", 20, 1000},
	} {
		t.Run(c.name, func(t *testing.T) { race(t, c.contenders, c.locks) })
	}
}

func race(t *testing.T, contenders, locks int) {
	if *rounds == 1 {
		t.Parallel()
	}
	s := &setting{contenders: contenders}
	for i := range locks {
		s.locks = append(s.locks, fmt.Sprint("lock", i))
	}
	var err error
	if s.broker, err = broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, s.broker.Close) })
	message := oneWay(t, s.broker.URL())
	var all [][]contender
	for _, e := range entrants {
		all = append(all, e.start(t, s))
	}
	var ready sync.WaitGroup
	for _, contenders := range all {
		ready.Go(func() { contend(t, contenders, s.locks, time.Millisecond) }) // a new root grants nothing for a grace
	}
	ready.Wait()
	others := watchMachine()
	rates, raw := make([][]float64, len(all)), []float64{}
	for r := range *rounds {
		raw = append(raw, float64(message().Nanoseconds())/1e3)
		for i := range all {
			i = (i + r) % len(all)
			rates[i] = append(rates[i], contend(t, all[i], s.locks, *round))
		}
	}
	if *rounds == 1 {
		return // it works, and its figures say nothing
	}
	report(t, rates, raw, others())
}

func report(t *testing.T, rates [][]float64, raw []float64, others float64) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-42s %10s %10s %15s", t.Name(), "a second", "ratio", "half between")
	for i, e := range entrants {
		var ratios []float64
		for r, rate := range rates[i] {
			ratios = append(ratios, rate/rates[0][r])
		}
		slices.Sort(ratios)
		slices.Sort(rates[i])
		fmt.Fprintf(&b, "\n%-42s %10.0f %10.2f %9.2f–%.2f", e.name, quantile(rates[i], .5), quantile(ratios, .5), quantile(ratios, .25), quantile(ratios, .75))
	}
	slices.Sort(raw)
	fmt.Fprintf(&b, "\na raw message from client to client: %.0f µs, half between %.0f and %.0f", quantile(raw, .5), quantile(raw, .25), quantile(raw, .75))
	if others > 0.05 {
		fmt.Fprintf(&b, "\nTHE MACHINE IS TOO BUSY: other processes used %.0f %% of it, do not believe these figures", 100*others)
	}
	t.Log(b.String())
}

func quantile(sorted []float64, q float64) float64 { return sorted[int(q*float64(len(sorted)-1)+.5)] }

// contend has all lock and unlock without a pause for some time, each any of the locks, and
// returns the entries a second.
func contend(t *testing.T, all []contender, locks []string, d time.Duration) float64 {
	t.Helper()
	var entries atomic.Int64
	var over atomic.Bool
	var inside atomic.Int32 // of the first lock
	var wg sync.WaitGroup
	began := time.Now()
	timer := time.AfterFunc(d, func() { over.Store(true) })
	defer timer.Stop()
	for i, c := range all {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for again := true; again; again = !over.Load() { // once at least
				n := random.IntN(len(locks))
				unlock, err := c.lock(locks[n])
				if err != nil {
					t.Errorf("contender %d: %v", i, err)
					return
				}
				if n == 0 && inside.Add(1) != 1 {
					t.Error("two have entered")
				}
				entries.Add(1)
				if n == 0 {
					inside.Add(-1)
				}
				if err := unlock(); err != nil {
					t.Errorf("contender %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(entries.Load()) / time.Since(began).Seconds()
}

// oneWay measures one raw message of QoS 0 from client to client: the median of some.
func oneWay(t testing.TB, url string) func() time.Duration {
	from, to := connectNaive(t, url, "from"), connectNaive(t, url, "to")
	arrived := make(chan time.Time, 1)
	await(t, to.Subscribe("raw", 0, func(paho.Client, paho.Message) { arrived <- time.Now() }))
	return func() time.Duration {
		var took []time.Duration
		for range 200 {
			sent := time.Now()
			from.Publish("raw", 0, false, make([]byte, 64))
			took = append(took, (<-arrived).Sub(sent))
		}
		slices.Sort(took)
		return took[len(took)/2]
	}
}
