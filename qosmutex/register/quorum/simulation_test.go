package quorum_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"padme/tests/bubble"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/quorum"
	"padme/qosmutex/register/registertest"
)

var (
	seeds = flag.Int("seeds", defaultSeeds, "seeds of the simulation")
	first = flag.Uint64("seed", 1, "the first of them")
)

// TestSimulation has clients read and write while messages are lost, repeated, late
// and reordered, and voters are killed, cut off, wiped and replaced; then everything
// is healed. Nothing that was acknowledged may be lost, whatever happened, and after
// the healing everybody must be answered. In every other run only processes end, and then
// renewals are not lost, either.
func TestSimulation(t *testing.T) {
	total := map[string]int{}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := &simulation{t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 2)), history: registertest.NewHistory(), did: map[string]int{}}
				s.run()
				for _, what := range []string{"read", "made", "conflict", "unknown", "unavailable"} {
					total[what] += s.history.Count(what)
				}
				for what, n := range s.did {
					total[what] += n
				}
			})
		})
		if !ok {
			t.Fatalf("repeat it with -run TestSimulation -seed %d -seeds 1", seed)
		}
	}
	t.Log(total)
	for _, what := range []string{"made", "conflict", "unknown", "kill", "cut", "power", "wipe", "replace"} {
		if total[what] == 0 && *seeds >= 40 {
			t.Errorf("no %s in %d seeds", what, *seeds)
		}
	}
}

type simulation struct {
	t       *testing.T
	seed    uint64
	random  *rand.Rand // of the faults
	n       *network
	disks   map[string]*quorum.MemoryDisk
	history *registertest.History
	did     map[string]int
	killed  bool // no machine ever ends, only processes: then renewals, too, are there to stay

	mu     sync.Mutex
	voters map[string]*quorum.Voter
	list   []string // voters as they are configured
	next   int      // number of the next replacement
}

func (s *simulation) run() {
	s.n = newNetwork(s.seed)
	s.n.lose = []float64{0, 0.02, 0.2}[s.random.IntN(3)]
	s.n.twice = []float64{0, 0.1}[s.random.IntN(2)]
	s.n.slowest = []time.Duration{0, 5 * time.Millisecond, 150 * time.Millisecond}[s.random.IntN(3)]
	if s.killed = s.random.IntN(2) == 0; s.killed {
		s.did["killed"]++
	}
	s.disks, s.voters = map[string]*quorum.MemoryDisk{}, map[string]*quorum.Voter{}
	s.list = []string{"a", "b", "c"}
	if s.random.IntN(3) == 0 {
		s.list = append(s.list, "d", "e")
	}
	enrolled := slices.Clone(s.list)
	for _, id := range s.list {
		s.start(id, enrolled)
	}
	defer func() {
		for id := range s.voters {
			s.kill(id)
		}
		time.Sleep(time.Second) // for messages that are under way
	}()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() { s.client(ctx, i, enrolled) })
	}
	for range 12 {
		time.Sleep(time.Duration(s.random.IntN(1500)) * time.Millisecond)
		s.fault()
	}
	s.heal()
	time.Sleep(5 * time.Second)
	cancel()
	all.Wait()
	s.checkAlive(enrolled)
	s.history.Check(s.t)
}

func (s *simulation) start(id string, voters []string) {
	if s.disks[id] == nil {
		s.disks[id] = &quorum.MemoryDisk{Killed: s.killed}
	}
	v, err := quorum.StartOn(quorum.Options{
		Self: id, Voters: voters, Lease: 500 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, port{s.n, id}, s.disks[id], s.seed+uint64(id[0]))
	if err != nil {
		s.t.Fatal(err)
	}
	s.n.attach(id, v.Receive)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.voters[id] = v
}

func (s *simulation) kill(id string) {
	s.n.attach(id, nil)
	s.mu.Lock()
	v := s.voters[id]
	delete(s.voters, id)
	s.mu.Unlock()
	if v != nil {
		_ = v.Close()
	}
}

// client reads and writes until the end: two do so at voters, two at clients.
func (s *simulation) client(ctx context.Context, number int, voters []string) {
	random := rand.New(rand.NewPCG(s.seed, uint64(10+number)))
	id := fmt.Sprint("client ", number)
	c, err := quorum.NewClient(voters, quorum.Timing{}, port{s.n, id})
	if err != nil {
		s.t.Error(err)
		return
	}
	s.n.attach(id, c.Receive)
	for ctx.Err() == nil {
		var r register.Register = c
		s.mu.Lock()
		if v := s.voters[[...]string{"a", "b"}[number%2]]; number < 2 && v != nil {
			r = v
		}
		s.mu.Unlock()
		within, cancel := context.WithTimeout(ctx, time.Duration(50+random.IntN(1500))*time.Millisecond)
		key := [...]string{"x", "y"}[random.IntN(2)]
		if e, err := s.history.Get(within, number, r, key); err == nil && random.IntN(3) > 0 {
			w := register.Write{Key: key, Old: e.Version, Value: []byte(id), Nonce: register.NewNonce()}
			if s.killed && random.IntN(3) > 0 {
				w.Renewal = 400 * time.Millisecond
			}
			res := s.history.Write(within, number, r, w)
			if errors.Is(res.Err, register.ErrUnknown) && random.IntN(2) == 0 {
				again, end := context.WithTimeout(ctx, time.Second)
				s.history.Write(again, 10+number, r, w) // another client, as far as the history goes
				end()
			}
		}
		cancel()
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
	}
}

// fault does something to the voters.
func (s *simulation) fault() {
	id := s.list[s.random.IntN(len(s.list))]
	switch s.random.IntN(6) {
	case 0:
		s.did["kill"]++
		s.kill(id)
	case 1:
		s.did["cut"]++
		s.n.isolate(id, true)
	case 2:
		s.did["power"]++
		for _, id := range s.list {
			s.kill(id)
		}
		for _, id := range s.list {
			s.start(id, s.startedWith(id))
		}
	case 3, 4:
		s.heal()
	case 5:
		s.heal()
		time.Sleep(2 * time.Second)
		s.replace(id)
	}
}

// startedWith is the list of voters that a voter is given: those at its enrollment.
func (s *simulation) startedWith(string) []string { return s.list }

// heal starts and reconnects all voters.
func (s *simulation) heal() {
	for _, id := range s.list {
		s.n.isolate(id, false)
		s.mu.Lock()
		v := s.voters[id]
		s.mu.Unlock()
		if v == nil {
			s.start(id, s.list)
		}
	}
}

// replace wipes a voter, or takes it away, and has an operator replace it.
func (s *simulation) replace(old string) {
	by := old
	s.kill(old)
	if s.random.IntN(2) == 0 {
		by = fmt.Sprint("new", s.next)
		s.next++
	} else {
		s.did["wipe"]++
	}
	delete(s.disks, old)
	list := slices.Clone(s.list)
	list[slices.Index(list, old)] = by
	s.start(by, list)
	var err error
	for range 20 {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		at := s.list[(slices.Index(s.list, old)+1)%len(s.list)]
		err = s.voters[at].Replace(ctx, old, by)
		cancel()
		if c := s.voters[at].Status().Config; err == nil || c != nil && slices.Contains(c.IDs(), by) && s.voters[at].Status().Phase == caspaxos.Voting && by != old {
			s.did["replace"]++
			s.list = list
			return
		}
		time.Sleep(time.Second)
	}
	for id, v := range s.voters {
		s.t.Logf("%s: %+v", id, v.Status())
	}
	s.t.Fatalf("%s was not replaced by %s: %v", old, by, err)
}

// checkAlive has everybody answered, within two seconds of virtual time.
func (s *simulation) checkAlive(voters []string) {
	s.n.restore()
	for id, v := range s.voters {
		if st := v.Status(); st.Phase != caspaxos.Voting {
			s.t.Errorf("%s is %v: %+v", id, st.Phase, st)
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
		if _, err := s.history.Get(ctx, 50, v, "x"); err != nil {
			s.t.Errorf("%s: %v", id, err)
		}
		cancel()
	}
}
