//go:build unix

package inboxes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/pubsub"
	"padme/qosmutex/register"
	"padme/qosmutex/register/inboxes"
	"padme/qosmutex/register/quorum"
	"padme/qosmutex/register/registertest"
	"padme/tests/brokers"
	"padme/tests/extent"
)

// voterEnv makes the test binary a voter: URL, domain, id, file, and the list of
// voters.
const voterEnv = "PADME_TEST_VOTER"

func TestMain(m *testing.M) {
	if env := os.Getenv(voterEnv); env != "" {
		fmt.Fprintln(os.Stderr, serve(strings.Split(env, "|")))
		os.Exit(1)
	}
	goleak.VerifyTestMain(brokers.Ending(m), goleak.Cleanup(func(code int) {
		brokers.Report()
		os.Exit(code)
	}))
}

// serve is a voter until its input ends.
func serve(env []string) error {
	p, err := pubsub.Join(context.Background(), env[0], env[2], pubsub.WithDomain(env[1]))
	if err != nil {
		return err
	}
	v, err := inboxes.Start(p, options(env[3], strings.Fields(env[4])))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, v.Close(), p.Close(context.Background()))
}

func options(file string, voters []string) quorum.Options {
	return quorum.Options{
		Voters: voters, File: file, Lease: 300 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

var abc = []string{"a", "b", "c"}

func join(t testing.TB, url, id string) *pubsub.Participant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p, err := pubsub.Join(ctx, url, id, pubsub.WithDomain(brokers.Domain(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

func startVoter(t testing.TB, url, id string) *inboxes.Voter {
	t.Helper()
	v, err := inboxes.Start(join(t, url, id), options(filepath.Join(t.TempDir(), id), abc))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func newClient(t testing.TB, url, id string) *inboxes.Client {
	t.Helper()
	c, err := inboxes.NewClient(join(t, url, id), abc, quorum.Timing{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestContract(t *testing.T) {
	registertest.Run(t, func(t *testing.T) register.Register {
		url := brokers.Use(t)
		for _, id := range abc {
			startVoter(t, url, id)
		}
		return newClient(t, url, "x")
	})
}

// process is a voter that can be killed.
type process struct {
	t   *testing.T
	env string
	cmd *exec.Cmd
	in  io.Closer
}

func (p *process) start() {
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), voterEnv+"="+p.env)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err == nil {
		p.in = in
		err = p.cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.in.Close()
}

// TestKilledVoters has clients read and write over a real broker while voters, which
// are processes of their own, are killed with -9 one after the other and all at once.
func TestKilledVoters(t *testing.T) {
	extent.Long(t, "voters are killed in turn")
	url, dir := brokers.Use(t), t.TempDir()
	var voters []*process
	for _, id := range abc {
		env := strings.Join([]string{url, brokers.Domain(t), id, filepath.Join(dir, id), strings.Join(abc, " ")}, "|")
		p := &process{t: t, env: env}
		p.start()
		t.Cleanup(p.kill)
		voters = append(voters, p)
	}
	h := registertest.NewHistory()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for client := range 4 {
		r := newClient(t, url, fmt.Sprint("client", client))
		all.Go(func() { work(ctx, h, client, r) })
	}
	for round := range 8 {
		time.Sleep(time.Second)
		some := voters[round%3 : round%3+1]
		if round%4 == 3 {
			some = voters
		}
		for _, p := range some {
			p.kill()
		}
		time.Sleep(500 * time.Millisecond)
		for _, p := range some {
			p.start()
		}
	}
	time.Sleep(2 * time.Second)
	within, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := newClient(t, url, "last").Get(within, "a"); err != nil {
		t.Errorf("after the last restart: %v", err)
	}
	stop()
	all.Wait()
	t.Log(h)
	if h.Count("made") < 100 || h.Count("conflict") == 0 {
		t.Error("too little has happened")
	}
	h.Check(t)
}

func work(ctx context.Context, h *registertest.History, client int, r register.Register) {
	random := rand.New(rand.NewPCG(uint64(client), 3))
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, 3*time.Second)
		key := [...]string{"a", "b"}[random.IntN(2)]
		if e, err := h.Get(within, client, r, key); err == nil {
			h.Write(within, client, r, register.Write{Key: key, Old: e.Version, Value: []byte{byte(client)}, Nonce: register.NewNonce()})
		}
		cancel()
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
}

func TestOneAtAParticipant(t *testing.T) {
	url := brokers.Use(t)
	p := join(t, url, "a")
	o := options(filepath.Join(t.TempDir(), "a"), []string{"a"})
	v, err := inboxes.Start(p, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inboxes.NewClient(p, abc, quorum.Timing{}); !errors.Is(err, pubsub.ErrInUse) {
		t.Errorf("a client beside a voter: %v", err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	o.Lease = -1
	if _, err := inboxes.Start(p, o); !errors.Is(err, register.ErrInvalid) {
		t.Errorf("bad options: %v", err)
	}
	o.Lease = time.Second
	v, err = inboxes.Start(p, o) // the inbox is free again
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}

func BenchmarkQuorum(b *testing.B) {
	url := brokers.Use(b)
	var voters []*inboxes.Voter
	for _, id := range abc {
		voters = append(voters, startVoter(b, url, id))
	}
	client := newClient(b, url, "x")
	for name, r := range map[string]register.Register{"voter": voters[0], "client": client} {
		b.Run(name+"/read", func(b *testing.B) {
			for b.Loop() {
				if _, err := r.Get(b.Context(), "crane"); err != nil {
					b.Fatal(err)
				}
			}
		})
		for kind, renewal := range map[string]time.Duration{"renewal": time.Millisecond, "write": 0} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				e, err := r.Get(b.Context(), "crane")
				if err != nil {
					b.Fatal(err)
				}
				v := e.Version
				for b.Loop() {
					res := r.CompareAndSet(b.Context(), register.Write{Key: "crane", Old: v, Value: make([]byte, 200), Renewal: renewal})[0]
					if res.Err != nil {
						b.Fatal(res.Err)
					}
					v = res.Version
				}
			})
		}
	}
}
