//go:build linux

package churn

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/brokers"
	"padme/tests/extent"
	"padme/tests/process"
)

var (
	duration = flag.Duration("churn.duration", 20*time.Second, "how long to run")
	kill     = flag.Bool("churn.kill", false, "kill -9 a process every five seconds")
	voters   = flag.Bool("churn.voters", false, "three that serve as voters on mosquitto, instead of pubsub-node broker")
	seed     = flag.Uint64("churn.seed", 1, "of what is killed")
)

const (
	topic     = "crane"
	programs  = 4 // that stay
	onDefault = 5 // loops of commands on crane/default
	onB       = 4 // loops of commands on crane/b
	memberEnv = "PADME_CHURN_BROKER"
	ttl       = 3 * time.Second // of the LAN preset, which everything here has by default
)

// TestMain is also the program that stays: it locks crane/default again and again, and
// says so on its standard output.
func TestMain(m *testing.M) {
	url := os.Getenv(memberEnv)
	if url == "" {
		os.Exit(m.Run())
	}
	if err := program(context.Background(), url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func program(ctx context.Context, url string) error {
	for {
		if err := lockAgainAndAgain(ctx, url); err != nil {
			fmt.Fprintln(os.Stderr, "again:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

func lockAgainAndAgain(ctx context.Context, url string) error {
	p, err := pubsub.Join(ctx, url, fmt.Sprintf("program-%d", os.Getpid()))
	if err != nil {
		return err
	}
	defer p.Close(ctx)
	lock, err := qosmutex.Open(ctx, p, topic)
	if err != nil {
		return err
	}
	defer lock.Close(ctx)
	for {
		hold, err := lock.Lock(ctx, "default")
		if err != nil {
			return err
		}
		fmt.Println("default")
		time.Sleep(2 * time.Millisecond)
		_ = hold.Unlock() // it may have been lost
		time.Sleep(2 * time.Millisecond)
	}
}

// gaps notes entries, and the longest time between two of one resource.
type gaps struct {
	mu      sync.Mutex
	last    map[string]time.Time
	longest map[string]time.Duration
	at      map[string]time.Duration // since the start
	entries map[string]int
	long    []string // those of more than a second
	start   time.Time
}

// begin has times counted from now on.
func (g *gaps) begin() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.start = time.Now()
	return g.start
}

func (g *gaps) entered(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if last, ok := g.last[resource]; ok {
		gap, at := now.Sub(last), now.Sub(g.start)
		if gap > g.longest[resource] {
			g.longest[resource], g.at[resource] = gap, at
		}
		if gap > time.Second && !g.start.IsZero() {
			g.long = append(g.long, fmt.Sprintf("%s %.1f s until %.1f s", resource, gap.Seconds(), at.Seconds()))
		}
	}
	g.last[resource] = now
	g.entries[resource]++
}

// site is the processes of one run.
type site struct {
	t     *testing.T
	bin   string
	dir   string
	gaps  *gaps
	mu    sync.Mutex
	procs map[string]*exec.Cmd
	ended bool
	wait  sync.WaitGroup
	fails []string
}

// keep runs a process, and again whenever it ends, until the site is stopped.
func (s *site) keep(name string, pause time.Duration, make func() *exec.Cmd) {
	s.wait.Go(func() {
		for {
			cmd := make()
			out, err := cmd.StdoutPipe()
			if err != nil {
				s.t.Error(err)
				return
			}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			s.mu.Lock()
			if s.ended {
				s.mu.Unlock()
				return
			}
			err = cmd.Start()
			s.procs[name] = cmd
			s.mu.Unlock()
			if err != nil {
				s.t.Error(err)
				return
			}
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if r := lines.Text(); r == "default" || r == "b" {
					s.gaps.entered(r)
				}
			}
			if err := cmd.Wait(); err != nil {
				s.mu.Lock()
				if !s.ended && !strings.Contains(err.Error(), "killed") {
					s.fails = append(s.fails, fmt.Sprintf("%s: %v: %.300s", name, err, stderr.String()))
				}
				s.mu.Unlock()
			}
			time.Sleep(pause)
		}
	})
}

func (s *site) stop() {
	s.mu.Lock()
	s.ended = true
	for _, cmd := range s.procs {
		_ = cmd.Process.Signal(syscall.SIGKILL)
	}
	s.mu.Unlock()
	s.wait.Wait()
}

// killOne kills a process: every second one a server.
func (s *site) killOne(random *rand.Rand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	servers := random.IntN(2) == 0 // they are fewer than the others
	var names []string
	for name := range s.procs {
		if servers == (name == "broker" || strings.HasPrefix(name, "serve")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	name := names[random.IntN(len(names))]
	s.t.Logf("%6.1f s: kill -9 %s", time.Since(s.gaps.start).Seconds(), name)
	_ = s.procs[name].Process.Signal(syscall.SIGKILL)
}

// command runs a command of pubsub-node that prints the resource once it is inside.
func (s *site) command(url, lock, resource string) *exec.Cmd {
	return exec.Command(s.bin, "lock", "--broker", url, lock, "--", "echo", resource)
}

// TestNothingFreezes: nobody waits for long although members come and go all the time.
func TestNothingFreezes(t *testing.T) {
	extent.NotShort(t, "real processes")
	s := &site{t: t, bin: process.Program(t, "padme/cmd/pubsub-node"), dir: t.TempDir(), procs: map[string]*exec.Cmd{}, gaps: &gaps{
		last: map[string]time.Time{}, longest: map[string]time.Duration{}, at: map[string]time.Duration{}, entries: map[string]int{},
	}}
	defer s.stop()
	start := s.startServers
	if *voters {
		start = s.startVoters
	}
	url := start()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range programs {
		s.keep(fmt.Sprint("program ", i), 50*time.Millisecond, func() *exec.Cmd {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), memberEnv+"="+url)
			return cmd
		})
	}
	for i := range onDefault {
		s.keep(fmt.Sprint("command ", i), 0, func() *exec.Cmd { return s.command(url, topic, "default") })
	}
	for i := range onB {
		s.keep(fmt.Sprint("command on b ", i), 0, func() *exec.Cmd { return s.command(url, topic+"/b", "b") })
	}
	s.run()
}

// run lets time pass and judges the gaps.
func (s *site) run() {
	start := s.gaps.begin()
	random := rand.New(rand.NewPCG(*seed, 0))
	bound := time.Second
	if *kill {
		bound += ttl
	}
	for end := start.Add(*duration); time.Now().Before(end); {
		if !*kill {
			time.Sleep(time.Until(end))
			break
		}
		time.Sleep(min(time.Until(end), 5*time.Second))
		s.killOne(random)
	}
	s.gaps.mu.Lock()
	defer s.gaps.mu.Unlock()
	for _, gap := range s.gaps.long {
		s.t.Log("nobody entered crane/" + gap)
	}
	for _, r := range []string{"default", "b"} {
		longest := max(s.gaps.longest[r], time.Since(s.gaps.last[r]))
		s.t.Logf("crane/%s: %d entries, the longest time without one %.3f s (at %.1f s)", r, s.gaps.entries[r], longest.Seconds(), s.gaps.at[r].Seconds())
		if s.gaps.entries[r] == 0 {
			s.t.Errorf("nobody entered crane/%s", r)
		}
		if *duration >= time.Minute && longest > bound {
			s.t.Errorf("nobody entered crane/%s for %v, want at most %v", r, longest, bound)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.fails {
		s.t.Log(f)
	}
	if len(s.fails) > 0 && !*kill {
		s.t.Errorf("%d processes failed", len(s.fails))
	}
}

// startServers starts a broker and two that serve, and returns the broker's URL.
func (s *site) startServers() string {
	ready := filepath.Join(s.dir, "broker.url")
	s.keep("broker", 0, func() *exec.Cmd {
		listen := "127.0.0.1:0"
		if url, err := os.ReadFile(ready); err == nil { // it was killed: on the same port again
			listen = strings.TrimPrefix(strings.TrimSpace(string(url)), "mqtt://")
		}
		return exec.Command(s.bin, "broker", "--listen", listen, "--data", filepath.Join(s.dir, "broker"), "--ready-file", ready)
	})
	var url string
	for end := time.Now().Add(20 * time.Second); url == "" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		b, _ := os.ReadFile(ready)
		url = strings.TrimSpace(string(b))
	}
	if url == "" {
		s.t.Fatal("the broker does not start")
	}
	for i := range 2 {
		s.keep(fmt.Sprint("serve ", i), 100*time.Millisecond, func() *exec.Cmd {
			return exec.Command(s.bin, "serve", "--broker", url, "--id", fmt.Sprint("serve-", i), "--data", filepath.Join(s.dir, fmt.Sprint("serve-", i)), topic)
		})
	}
	return url
}

// startVoters starts mosquitto and three that serve, which are the voters, and returns
// the URL of mosquitto. Nobody kills that: it has nothing to do with who is the root.
func (s *site) startVoters() string {
	b, err := brokers.Start(context.Background(), brokers.Mosquitto, s.t.TempDir())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(b.Stop)
	url := b.URL()
	for i := range 3 {
		id := fmt.Sprint("serve-", i)
		s.keep(id, 100*time.Millisecond, func() *exec.Cmd {
			return exec.Command(s.bin, "serve", "--broker", url, "--id", id, "--voters", "serve-0,serve-1,serve-2", "--data", filepath.Join(s.dir, id), topic)
		})
	}
	return url
}
