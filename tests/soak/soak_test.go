//go:build linux

package soak

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"padme/tests/extent"
	"padme/tests/process"
)

var (
	duration = flag.Duration("soak.duration", 20*time.Second, "how long processes run under faults, warm-up and calm included")
	seed     = flag.Uint64("soak.seed", 1, "makes other faults at other times")
)

const (
	waitStep = 10 * time.Millisecond // between two looks at a file or a process
	// settling is what it takes to come back once nothing breaks: 5 s between two
	// attempts to connect, and a session of 1 s.
	settling = 7 * time.Second
	// lockTakes bounds a lock command after that.
	lockTakes = 20 * time.Second
	shortest  = 15 * time.Second // of which half is warm-up and calm
)

// soak is one run.
type soak struct {
	t     *testing.T
	bin   string
	sites []*site

	mu     sync.Mutex
	counts map[string]int // of faults, and of how lock commands ended
	errs   []error
}

// TestSoak runs pubsub-node processes under random faults, and then demands that
// locks can be had and that nobody has kept what it does not need.
func TestSoak(t *testing.T) {
	extent.NotShort(t, "real processes")
	t.Parallel()
	if *duration < shortest {
		t.Fatalf("-soak.duration %v: give at least %v", *duration, shortest)
	}
	s := &soak{t: t, bin: process.Program(t, "padme/cmd/pubsub-node"), counts: map[string]int{}}
	s.sites = []*site{newSite(t, s.bin, "steady", true), newSite(t, s.bin, "killed", false)}
	warm, calm := *duration/5, *duration/10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	for i, site := range s.sites {
		for lane := range 3 {
			load.Go(func() { s.lockAgainAndAgain(ctx, site, lane, rand.New(rand.NewPCG(*seed, uint64(10*i+lane)))) })
		}
	}
	// Nothing counts until everybody is there and has done what it does.
	s.sample(warm/2, nil)
	s.sample(warm-warm/2, func(h *history) *[]sample { return &h.warm })
	var faults sync.WaitGroup
	for i, site := range s.sites {
		faults.Go(func() { s.breakThings(ctx, site, rand.New(rand.NewPCG(*seed, uint64(100+i)))) })
	}
	s.sample(*duration-warm-calm-settling, func(h *history) *[]sample { return &h.hot })
	cancel()
	faults.Wait()
	load.Wait()
	s.sample(settling, func(h *history) *[]sample { return &h.hot })
	for _, site := range s.sites {
		s.lockAtLast(site)
	}
	s.sample(calm, func(h *history) *[]sample { return &h.calm })
	s.report()
}

// sample looks at every living process for a while.
func (s *soak) sample(during time.Duration, into func(*history) *[]sample) {
	tick := time.NewTicker(max(200*time.Millisecond, *duration/2000))
	defer tick.Stop()
	for end := time.Now().Add(during); time.Now().Before(end); <-tick.C {
		if into == nil {
			continue
		}
		for _, site := range s.sites {
			for _, w := range site.living {
				if now, err := look(w.Process.Process.Pid, w.metrics); err == nil {
					part := into(&w.history)
					*part = append(*part, now)
				} else {
					s.fail("%s: %v", w.name, err)
				}
			}
		}
	}
}

// lockAgainAndAgain runs lock commands until ctx ends, and a few more if none has got its
// lock by then: a hold whose client and broker were killed at once outlasts a short run.
// Under faults any of them may end in any way; some are killed or put to sleep on purpose.
// The names are few, as a broker remembers the death of each.
func (s *soak) lockAgainAndAgain(ctx context.Context, at *site, lane int, random *rand.Rand) {
	id := fmt.Sprintf("%s-%d", at.name, lane)
	kinds := bag{of: []string{"lock", "lock", "lock", "lock killed", "lock stopped"}}
	for more := 5; ctx.Err() == nil || more > 0 && s.none(at); {
		if ctx.Err() != nil {
			more--
		}
		what := kinds.draw(random)
		command := []string{"sleep", "0.05"}
		if what == "lock killed" {
			command = []string{"sleep", "60"}
		}
		p, err := s.lock(at, id, command...)
		if err != nil {
			s.fail("%v", err)
			return
		}
		switch what {
		case "lock killed":
			pause(ctx, between(random, 50*time.Millisecond, time.Second))
			p.Kill()
		case "lock stopped":
			pause(ctx, between(random, 20*time.Millisecond, 200*time.Millisecond))
			p.Signal(syscall.SIGSTOP)
			pause(ctx, between(random, 500*time.Millisecond, 2*time.Second))
			p.Signal(syscall.SIGCONT)
			fallthrough
		default:
			if code, err := p.Ended(2 * lockTakes); err != nil {
				s.fail("%v", err)
				p.Kill()
			} else {
				what = fmt.Sprintf("%s: exit %d", what, code)
			}
		}
		s.count(at.name + " " + what)
		pause(ctx, between(random, 0, 200*time.Millisecond))
	}
}

// lock starts a lock command.
func (s *soak) lock(at *site, id string, command ...string) (*process.Process, error) {
	argv := append([]string{s.bin, "lock", "crane", "--id", id, "-w", lockTakes.String(), "--timeout", "2s", "--"}, command...)
	return begin([]string{"PADME_BROKER=" + at.proxy.URL()}, argv...)
}

// breakThings resets connections, and kills and stops who lives at a site, until
// ctx ends, but each kind of fault once however slow the machine is. Everything
// that it stopped goes on when it returns.
func (s *soak) breakThings(ctx context.Context, at *site, random *rand.Rand) {
	kinds := bag{of: []string{"some connections reset", "all connections reset", "process stopped"}}
	if at.living[0].Process != at.broker { // it need not live
		kinds.of = append(kinds.of, "broker killed")
	}
	for done := 0; done < len(kinds.of) || ctx.Err() == nil; done++ {
		what := kinds.draw(random)
		switch what {
		case "some connections reset":
			at.proxy.Reset(func() bool { return random.IntN(3) == 0 })
		case "all connections reset":
			at.proxy.ResetAll()
		case "broker killed":
			at.broker.Kill()
			pause(ctx, between(random, 0, 1500*time.Millisecond))
			if err := at.startBroker(s.bin); err != nil {
				s.fail("%v", err)
				return
			}
		case "process stopped":
			victim := at.living[random.IntN(len(at.living))]
			victim.Signal(syscall.SIGSTOP)
			// Not as long as it takes to be asked for samples in vain.
			pause(ctx, between(random, 200*time.Millisecond, 1500*time.Millisecond))
			victim.Signal(syscall.SIGCONT)
		}
		s.count(at.name + " " + what)
		pause(ctx, between(random, 100*time.Millisecond, 1500*time.Millisecond))
	}
}

// lockAtLast demands a lock, and that those who watch hear of it.
func (s *soak) lockAtLast(at *site) {
	id := at.name + "-last"
	p, err := s.lock(at, id, "true")
	if err != nil {
		s.fail("%v", err)
		return
	}
	if code, err := p.Ended(2 * lockTakes); err != nil || code != 0 {
		s.fail("%s: after all faults a lock command ended with code %d (%v): %s", at.name, code, err, p.Printed())
		p.Kill()
		return
	}
	for end := time.Now().Add(5 * time.Second); !strings.Contains(at.watch.Printed(), `"participant":"`+id+`"`); time.Sleep(waitStep) {
		if time.Now().After(end) {
			s.fail("%s: lock watch did not hear of the last lock", at.name)
			return
		}
	}
}

// report prints what happened and fails the test for what went wrong.
func (s *soak) report() {
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		lines = append(lines, fmt.Sprintf("%6d  %s", s.counts[what], what))
	}
	var rows []row
	for _, site := range s.sites {
		for _, w := range site.living {
			r := w.judge()
			rows = append(rows, r)
			for _, f := range r.faults {
				s.t.Errorf("%s: %s", r.name, f)
			}
			select {
			case <-w.Done:
				s.t.Errorf("%s ended by itself with code %d: %s", w.name, w.ProcessState.ExitCode(), w.Printed())
			default:
			}
		}
		if s.none(site) {
			s.t.Errorf("%s: no lock command got its lock under faults", site.name)
		}
	}
	for _, what := range []string{"killed broker killed", "steady all connections reset", "steady process stopped", "steady lock killed"} {
		if s.counts[what] == 0 {
			s.t.Errorf("%q never happened", what)
		}
	}
	for _, err := range s.errs {
		s.t.Error(err)
	}
	s.t.Logf("seed %d, %v\n%s\n\n%s", *seed, *duration, strings.Join(lines, "\n"), table(rows))
}

// none reports whether no lock command has got its lock.
func (s *soak) none(at *site) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[at.name+" lock: exit 0"] == 0
}

func (s *soak) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// fail notes what is wrong, the first of many.
func (s *soak) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) < 20 {
		s.errs = append(s.errs, fmt.Errorf(format, args...))
	}
}

// bag is drawn from until it is empty, and filled again: nothing in it is long in
// coming, as with dice it can be.
type bag struct{ of, left []string }

func (b *bag) draw(random *rand.Rand) string {
	if len(b.left) == 0 {
		for _, i := range random.Perm(len(b.of)) {
			b.left = append(b.left, b.of[i])
		}
	}
	last := len(b.left) - 1
	what := b.left[last]
	b.left = b.left[:last]
	return what
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
