package qosmutex

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"padme/qosmutex/protocol"
	"padme/qosmutex/register"
	"padme/qosmutex/register/local"
)

// reached is a register in common, as long as its process runs.
type reached struct {
	register.Register
	ended atomic.Bool
}

func (r *reached) Get(ctx context.Context, key string) (register.Entry, error) {
	if r.ended.Load() {
		return register.Entry{}, &register.Unavailable{Cause: register.ErrClosed}
	}
	return r.Register.Get(ctx, key)
}

func (r *reached) CompareAndSet(ctx context.Context, writes ...register.Write) []register.Result {
	if r.ended.Load() {
		return []register.Result{{Err: &register.Unavailable{Cause: register.ErrClosed}}}
	}
	return r.Register.CompareAndSet(ctx, writes...)
}

// serveWith is serve with a register in common.
func (k *keeper) serveWith(shared register.Register) (s *Server, kill func()) {
	r := &reached{Register: shared}
	s, end := k.serve(WithRegister(r))
	return s, func() {
		r.ended.Store(true)
		end()
	}
}

// A server beside another one is killed, where the other one is the root and where it is itself, with a register
// in common and with one of each one's own: the next process goes on with what it held for others. Who waits gets it when
// it is unlocked, with a higher fence, and what was not noted is over.
func TestServerGoesOnBesideOthers(t *testing.T) {
	for _, common := range []bool{true, false} {
		t.Run(fmt.Sprintf("common=%v", common), func(t *testing.T) {
			dir := t.TempDir()
			inVirtualTime(t, func(t *testing.T, w *world) { goOnBesideOthers(t, w, dir, common) })
		})
	}
}

func goOnBesideOthers(t *testing.T, w *world, dir string, common bool) {
	ctx := context.Background()
	p, _ := w.join("first")
	k := &keeper{t: t, w: w, path: filepath.Join(dir, "second"), id: "second"}
	opts, serve := []Option{w.clock}, func() (*Server, func()) { return k.serve() }
	if common {
		shared := local.Memory()
		opts, serve = append(opts, WithRegister(shared)), func() (*Server, func()) { return k.serveWith(shared) }
	}
	first, end := listening(t, p, 0, opts...)
	second, kill := serve()
	topicOf(t, first, "crane")
	topicOf(t, second, "ramp")
	fences := map[string]uint64{}
	for _, name := range []string{"crane", "ramp"} {
		h, err := topicOf(t, second, name).Lock(ctx, "hook", WithNote([]byte("client 7")), WithClient("esp32"))
		if err != nil {
			t.Fatal(err)
		}
		fences[name] = h.Fence()
		if _, err := topicOf(t, second, name).Lock(ctx, "door"); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		time.Sleep(10 * time.Second)
		kill()
		time.Sleep(500 * time.Millisecond)
		second, kill = serve()
		for _, name := range []string{"crane", "ramp"} {
			begun := time.Now()
			list := topicOf(t, second, name).Resumed()
			if len(list) != 1 || list[0].Check() != nil || list[0].Fence() != fences[name] || string(list[0].Note()) != "client 7" || list[0].client != "esp32" {
				t.Fatalf("round %d: %s goes on with %v, and the fence was %d", round, name, list, fences[name])
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("round %d: %s was open after %v", round, name, took)
			}
		}
	}
	for _, name := range []string{"crane", "ramp"} {
		next := make(chan *Hold)
		go func() {
			h, err := topicOf(t, first, name).Lock(ctx, "hook")
			if err != nil {
				t.Error(err)
			}
			next <- h
		}()
		time.Sleep(5 * time.Second)
		select {
		case <-next:
			t.Fatalf("two hold %s", name)
		default:
		}
		if err := topicOf(t, second, name).Resumed()[0].Unlock(); err != nil {
			t.Error(err)
		}
		if h := <-next; h.Fence() <= fences[name] {
			t.Errorf("fence %d after %d", h.Fence(), fences[name])
		}
		if _, err := topicOf(t, first, name).TryLock(ctx, "door"); err != nil {
			t.Errorf("what was not noted is not over: %v", err)
		}
	}
	w.killed.Go(func() { kill(); end(); _ = p.Close(ctx) })
}

// It is away for so long that its holds are over and somebody else is inside: none goes on.
func TestServerIsAwayForTooLong(t *testing.T) {
	dir := t.TempDir()
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		shared := local.Memory()
		p, _ := w.join("first")
		first, end := listening(t, p, 0, WithRegister(shared), w.clock)
		k := &keeper{t: t, w: w, path: filepath.Join(dir, "second"), id: "second"}
		second, kill := k.serveWith(shared)
		topicOf(t, first, "crane")
		topicOf(t, second, "ramp")
		fences := map[string]uint64{}
		for _, name := range []string{"crane", "ramp"} {
			topicOf(t, first, name)
			h, err := topicOf(t, second, name).Lock(ctx, "hook", WithNote([]byte("client 7")))
			if err != nil {
				t.Fatal(err)
			}
			fences[name] = h.Fence()
		}
		time.Sleep(10 * time.Second)
		kill()
		for _, name := range []string{"crane", "ramp"} {
			h, err := topicOf(t, first, name).Lock(ctx, "hook")
			if err != nil || h.Fence() <= fences[name] {
				t.Fatalf("fence %d after %d: %v", h.Fence(), fences[name], err)
			}
			defer func() {
				if err := h.Check(); err != nil {
					t.Error(err)
				}
			}()
		}
		second, kill = k.serveWith(shared)
		for _, name := range []string{"crane", "ramp"} {
			if list := topicOf(t, second, name).Resumed(); len(list) > 0 {
				t.Errorf("%s goes on with %v", name, list)
			}
		}
		w.killed.Go(func() { kill(); end(); _ = p.Close(ctx) })
	})
}

// Two gateways of one register in common, each with a file of its own at the same path of one machine: two
// containers with a volume each.
func TestFilesAtOnePathAreDifferentPlaces(t *testing.T) {
	dir := t.TempDir()
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		shared := local.Memory()
		open := func(id string) (*Server, func()) {
			data := filepath.Join(dir, "data")
			if err := os.Mkdir(data, 0o700); err != nil {
				t.Fatal(err)
			}
			file, err := local.Open(filepath.Join(data, "holds"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(data, data+id); err != nil {
				t.Fatal(err)
			}
			p, _ := w.join(id)
			s, end := listening(t, p, 0, KeepIn(file), Resume(), WithRegister(shared), w.clock)
			return s, func() { end(); _ = p.Close(ctx); _ = file.Close() }
		}
		first, end1 := open("first")
		second, end2 := open("second")
		topic := topicOf(t, first, "crane")
		h, err := topic.Lock(ctx, "hook")
		if err != nil {
			t.Fatal(err)
		}
		topicOf(t, second, "crane")
		before := topic.Status().Epoch
		time.Sleep(time.Minute)
		if now := topic.Status(); now.Epoch != before || now.Role != protocol.Root || h.Check() != nil {
			t.Errorf("it was the root of term %v, and is %v in %v: %v", before, now.Role, now.Epoch, h.Check())
		}
		w.killed.Go(func() { end2(); end1() })
	})
}

// A server notes nothing more of a lock that it has let go of, nor of one whose member it was when it ends.
func TestNothingIsNotedOfAClosedTopic(t *testing.T) {
	for _, common := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "register")
		inVirtualTime(t, func(t *testing.T, w *world) {
			ctx := context.Background()
			file, err := local.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			opts := []Option{w.clock}
			if common {
				opts = append(opts, WithRegister(local.Memory()))
			}
			p, _ := w.join("first")
			defer p.Close(ctx)
			first, end := listening(t, p, 0, opts...)
			defer end()
			q, _ := w.join("second")
			defer q.Close(ctx)
			second, leave := listening(t, q, 0, append(opts, KeepIn(file), Resume())...)
			topicOf(t, first, "crane")
			h, err := topicOf(t, second, "crane").Lock(ctx, "hook", WithNote([]byte("client 7")))
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Unlock(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second)
			if file.Session(recordKey(p.Root(), "crane")).Number == 0 {
				t.Error("the session of a member is not noted")
			}
			leave()
			for _, key := range file.Noted() {
				t.Errorf("common %v: of %s: session %v, terms %v, held %v", common, key, file.Session(key), file.Terms(key), file.Held(key))
			}
		})
	}
}

// Whoever opens a topic without Resume waits for those who may go by what was noted.
func TestHoldsThatNobodyResumesAreWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "register")
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		var ends []func() // what was cut off counts until its lease is over
		open := func() (*Topic, func()) {
			file, err := local.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			p, cable := w.join("root")
			topic, err := Open(ctx, p, "crane", Create(), WithRegister(file), WithOpenResources(), w.clock)
			if err != nil {
				t.Fatal(err)
			}
			return topic, func() {
				cable.Cut()
				time.Sleep(10 * time.Millisecond)
				_ = file.Close()
				ends = append(ends, func() { _ = topic.Close(ctx); _ = p.Close(ctx) })
			}
		}
		first, kill := open()
		before, err := first.Lock(ctx, "hook", WithNote([]byte("client 7")))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		kill()
		second, kill := open()
		after, err := second.Lock(ctx, "hook")
		if err != nil || before.Check() == nil {
			t.Errorf("fence %d beside %d, which is valid for %v: %v", after.Fence(), before.Fence(), before.Remaining(), err)
		}
		kill()
		for _, end := range ends {
			w.killed.Go(end)
		}
	})
}

// Who ends a server as in a crash must lose nothing by that: not where it only has the role of servers
// through another root, which somebody would have to wait for.
func TestServerLeavesHolds(t *testing.T) {
	dir := t.TempDir()
	inVirtualTime(t, func(t *testing.T, w *world) {
		ctx := context.Background()
		k := &keeper{t: t, w: w, path: filepath.Join(dir, "first")}
		first, kill := k.serve()
		topicOf(t, first, servedBy)
		k = &keeper{t: t, w: w, path: filepath.Join(dir, "second"), id: "second"}
		second, end := k.serve()
		is := func(s *Server, want bool, when string) {
			t.Helper()
			if got := s.LeavesHolds(); got != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		is(first, true, "the root of servers")
		if _, err := topicOf(t, second, servedBy).Lock(ctx, "crane", WithNote([]byte("role"))); err != nil {
			t.Fatal(err)
		}
		topicOf(t, second, "ramp")
		is(second, false, "with a role through another root")
		ramp, err := topicOf(t, second, "ramp").Lock(ctx, "hook", WithNote([]byte("client")))
		if err != nil {
			t.Fatal(err)
		}
		is(second, true, "with a hold as the root")
		if err := ramp.Unlock(); err != nil {
			t.Fatal(err)
		}
		is(second, false, "without it")
		topicOf(t, first, "gate")
		if _, err := topicOf(t, second, "gate").Lock(ctx, "hook", WithNote([]byte("client"))); err != nil {
			t.Fatal(err)
		}
		is(second, true, "with a hold through another root")
		w.killed.Go(func() { end(); kill() })
	})
}
