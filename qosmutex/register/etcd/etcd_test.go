//go:build unix

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"padme/qosmutex/register"
	"padme/qosmutex/register/etcd"
	"padme/qosmutex/register/registertest"
	"padme/tests/extent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, opts etcd.Options) *etcd.Register {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := etcd.Open(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestContract(t *testing.T) {
	c := startCluster(t)
	n := 0
	registertest.Run(t, func(t *testing.T) register.Register {
		n++
		return connect(t, etcd.Options{Endpoints: c.endpoints(), Prefix: fmt.Sprint(n, "/")})
	})
	t.Run("TwoRegistersAreOne", func(t *testing.T) {
		opts := etcd.Options{Endpoints: c.endpoints(), Prefix: "two/"}
		registertest.Linearizable(t, []register.Register{connect(t, opts), connect(t, opts), connect(t, opts)}, 6, 100)
	})
	t.Run("TheOnlyWriterHasNoConflict", func(t *testing.T) { theOnlyWriterHasNoConflict(t, c) })
	t.Run("OneKeyIsDamaged", func(t *testing.T) { oneKeyIsDamaged(t, c) })
}

// theOnlyWriterHasNoConflict: answers to reads come in any order, and an old one must not be taken
// for what a write is compared with.
func theOnlyWriterHasNoConflict(t *testing.T, c *cluster) {
	r := connect(t, etcd.Options{Endpoints: c.endpoints(), Prefix: "only/"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reading, stop := context.WithCancel(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	for range 8 {
		readers.Go(func() {
			for reading.Err() == nil {
				_, _ = r.Get(reading, "k")
			}
		})
	}
	var old register.Version
	for i := range 1000 {
		res := r.CompareAndSet(ctx, register.Write{Key: "k", Old: old, Value: []byte("v"), Nonce: register.NewNonce()})[0]
		if res.Err != nil {
			t.Fatalf("write %d of the only writer: %v", i, res.Err)
		}
		old = res.Version
	}
}

// oneKeyIsDamaged: what somebody else has written over one key is an error of that key alone.
func oneKeyIsDamaged(t *testing.T, c *cluster) {
	r := connect(t, etcd.Options{Endpoints: c.endpoints(), Prefix: "damaged/"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	writes := []register.Write{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("1")}}
	for i, res := range r.CompareAndSet(ctx, writes...) {
		if writes[i].Old = res.Version; res.Err != nil {
			t.Fatal(res.Err)
		}
	}
	raw, err := clientv3.New(clientv3.Config{Endpoints: c.endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	all, err := raw.Get(ctx, "damaged/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range all.Kvs {
		if strings.HasSuffix(string(kv.Key), "a") {
			if _, err := raw.Put(ctx, string(kv.Key), "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	results := r.CompareAndSet(within, writes...)
	if results[0].Err == nil || errors.Is(results[0].Err, register.ErrUnknown) {
		t.Errorf("the write of the damaged key: %v", results[0].Err)
	}
	if results[1].Err != nil {
		t.Errorf("the write of another key: %v", results[1].Err)
	}
}

// TestFaults has clients read and write while members are killed with -9 and stalled,
// the leader among them, and all of them at once.
func TestFaults(t *testing.T) {
	extent.Long(t, "twelve faults of etcd")
	c := startCluster(t)
	h := registertest.NewHistory()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for client := range 5 {
		r := connect(t, etcd.Options{Endpoints: c.endpoints(), Patience: 300 * time.Millisecond})
		all.Go(func() { work(ctx, h, client, r) })
	}
	random := rand.New(rand.NewPCG(1, 2))
	pause := func() { time.Sleep(time.Duration(500+random.IntN(1500)) * time.Millisecond) }
	for round := range 4 {
		pause()
		at := c.leader()
		if round%2 == 0 {
			c.stall(at, true)
			pause()
			c.stall(at, false)
		} else {
			c.kill(at)
			pause()
			c.start(at)
		}
	}
	for i := range c.members {
		c.kill(i)
	}
	pause()
	for i := range c.members {
		c.start(i)
	}
	c.waitHealthy()
	pause()
	stop()
	all.Wait()
	t.Log(h)
	if h.Count("made") < 100 || h.Count("conflict") == 0 {
		t.Error("too little has happened")
	}
	h.Check(t)
}

// work reads and writes two keys until the context ends.
func work(ctx context.Context, h *registertest.History, client int, r register.Register) {
	random := rand.New(rand.NewPCG(uint64(client), 3))
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		key := [...]string{"a", "b"}[random.IntN(2)]
		if e, err := h.Get(within, client, r, key); err == nil {
			h.Write(within, client, r, register.Write{Key: key, Old: e.Version, Value: []byte{byte(client)}, Nonce: register.NewNonce()})
		}
		cancel()
		time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	}
}

func TestMissingMembersAreNamed(t *testing.T) {
	c := startCluster(t)
	r := connect(t, etcd.Options{Endpoints: c.endpoints(), Patience: 300 * time.Millisecond})
	e, err := r.Get(t.Context(), "crane")
	if err != nil {
		t.Fatal(err)
	}
	c.kill(0)
	c.kill(2)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	res := r.CompareAndSet(ctx, register.Write{Key: "crane", Old: e.Version, Value: []byte("a")})[0]
	var u *register.Unavailable
	if !errors.As(res.Err, &u) || !errors.Is(res.Err, context.DeadlineExceeded) {
		t.Fatalf("got %v", res.Err)
	}
	for i, id := range c.endpoints() {
		if missing := strings.Contains(strings.Join(u.Missing, " "), id); i != 1 && !missing {
			t.Errorf("member %d is missing, but not named by %v", i, res.Err)
		}
	}
	c.start(0)
	c.start(2)
	c.waitHealthy()
	if _, err := r.Get(t.Context(), "crane"); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := etcd.Open(t.Context(), etcd.Options{}); !errors.Is(err, register.ErrInvalid) {
		t.Errorf("no endpoints: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := etcd.Open(ctx, etcd.Options{Endpoints: []string{"http://127.0.0.1:1"}})
	if !errors.Is(err, register.ErrUnavailable) || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("nobody there: %v", err)
	}
}
