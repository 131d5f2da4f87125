//go:build linux

package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/fence"
	"padme/qosmutex/protocol"
	records "padme/qosmutex/register"
	"padme/qosmutex/register/inboxes"
	"padme/qosmutex/register/quorum"
)

const (
	topicName = "yard"
	thinking  = 20 * time.Millisecond // outside
	working   = 15 * time.Millisecond // inside, between reading and writing
	sampling  = 3 * time.Millisecond  // between two Checks
	retry     = 100 * time.Millisecond
)

var resources = []string{"crane", "press"}

// job is what a worker process is to do.
type job struct {
	Broker, ID string
	Dir        string // of the files that all share
	History    string
	Create     bool     // the topic, if there is none
	Voters     []string // of the register; who is one keeps a file in Dir. None: it has no register
	Idle       bool     // a member that never locks
	Priority   int64
	Models     string
	LAN        bool // timing; else Local
	// Reckless: it takes its hold for valid whatever Check says, and writes past
	// the guard.
	Reckless bool
}

func timing(lan bool) qosmutex.Timing {
	if lan {
		return qosmutex.LAN()
	}
	return qosmutex.Local()
}

// options are those of every participant.
func options(models string, lan bool) ([]qosmutex.Option, error) {
	m, err := qosmutex.ParseModels(models)
	return []qosmutex.Option{
		qosmutex.WithTiming(timing(lan)), qosmutex.WithFanout(2), qosmutex.WithModels(m), qosmutex.WithResources(resources...),
	}, err
}

// worker locks the resources in turn and counts in files which they protect.
type worker struct {
	job
	history *history
	guards  map[string]*fence.Guard
	topic   atomic.Pointer[qosmutex.Topic]
	stay    atomic.Bool
	proceed chan struct{}
}

// work runs until the process is killed or its standard input ends.
func work(j job) error {
	h, err := openHistory(j.History)
	if err != nil {
		return err
	}
	w := &worker{job: j, history: h, guards: map[string]*fence.Guard{}, proceed: make(chan struct{}, 1)}
	for _, r := range resources {
		if w.guards[r], err = fence.Open(filepath.Join(j.Dir, r+".fence")); err != nil {
			return err
		}
	}
	go w.obey()
	for {
		fmt.Fprintln(os.Stderr, j.ID, w.participate())
		time.Sleep(retry)
	}
}

// obey follows orders: to stay inside after the next entry, to go on, and to show
// what the participant knows.
func (w *worker) obey() {
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		switch orders.Text() {
		case "stay":
			w.stay.Store(true)
		case "go":
			w.stay.Store(false)
			select {
			case w.proceed <- struct{}{}:
			default:
			}
		case "show":
			if topic := w.topic.Load(); topic != nil {
				s := topic.Status()
				fmt.Fprintf(os.Stderr, "%v of %v under %v in %v, session %d, children %v, resources %+v\n",
					s.Role, s.Root, s.Parent, s.Epoch, s.Session, s.Children, s.Resources)
			}
		}
	}
	os.Exit(0)
}

// participate returns when the participant or its topic has ended.
func (w *worker) participate() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	joining, cancelJoin := context.WithTimeout(ctx, 5*time.Second)
	defer cancelJoin()
	p, err := pubsub.Join(joining, w.Broker, w.ID)
	if err != nil {
		return err
	}
	defer p.Close(joining)
	opts, err := options(w.Models, w.LAN)
	if err != nil {
		return err
	}
	opts = append(opts, qosmutex.WithNodePriority(w.Priority))
	if w.Create {
		opts = append(opts, qosmutex.Create())
	}
	if len(w.Voters) > 0 {
		r, err := w.register(p)
		if err != nil {
			return err
		}
		defer r.Close()
		opts = append(opts, qosmutex.WithRegister(r))
	}
	topic, err := qosmutex.Open(ctx, p, topicName, opts...)
	if err != nil {
		return err
	}
	defer topic.Close(joining)
	w.topic.Store(topic)
	go w.reportTree(ctx, topic)
	if w.Idle {
		<-topic.Done()
		return topic.Err()
	}
	for i := 0; ; i++ {
		if err := w.visit(ctx, topic, resources[i%len(resources)]); err != nil {
			return err
		}
		time.Sleep(thinking)
	}
}

// voting is a voter of the register of all members, or one of its clients.
type voting interface {
	records.Register
	Close() error
}

func (w *worker) register(p *pubsub.Participant) (voting, error) {
	if !slices.Contains(w.Voters, w.ID) {
		return inboxes.NewClient(p, w.Voters, quorum.LAN())
	}
	timing := timing(w.LAN)
	return inboxes.Start(p, quorum.Options{
		Voters: w.Voters, File: filepath.Join(w.Dir, w.ID+".votes"), Lease: timing.TTL / 2, Drift: timing.Drift,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// reportTree tells who is an inner node of the tree, and who its root.
func (w *worker) reportTree(ctx context.Context, topic *qosmutex.Topic) {
	children, root := -1, false
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		s := topic.Status()
		if n := len(s.Children); n != children {
			children = n
			w.history.add(now(), parent, "-", uint64(n))
		}
		if is := s.Role == protocol.Root; is != root {
			root = is
			w.history.add(now(), map[bool]string{true: rooted, false: unrooted}[is], "-", 0)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// visit enters once: read, work, write.
func (w *worker) visit(ctx context.Context, topic *qosmutex.Topic, resource string) error {
	w.history.add(now(), called, resource, 0)
	hold, err := topic.Lock(ctx, resource)
	if err != nil {
		return err
	}
	w.history.add(now(), got, resource, hold.Fence())
	leave := w.sample(hold)
	err = w.count(hold)
	leave()
	at := now()
	switch e := hold.Unlock(); {
	case e == nil:
		w.history.add(at, valid, resource, hold.Fence())
		w.history.add(now(), ended, resource, hold.Fence())
	case errors.Is(e, qosmutex.ErrLost):
		if w.Reckless {
			w.history.add(at, valid, resource, hold.Fence())
		}
		w.history.add(now(), lost, resource, hold.Fence())
	default:
		return e
	}
	return err
}

// sample looks all the time whether the hold is valid, until it is not or leave
// is called.
func (w *worker) sample(hold *qosmutex.Hold) (leave func()) {
	done := make(chan struct{})
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for {
			at := now()
			if err := hold.Check(); err != nil && !w.Reckless {
				w.history.add(now(), lost, hold.Resource(), hold.Fence())
				return
			}
			w.history.add(at, valid, hold.Resource(), hold.Fence())
			select {
			case <-done:
				return
			case <-time.After(sampling):
			}
		}
	})
	return func() { close(done); sampler.Wait() }
}

// count adds one to two counters, one with and one without a guard. Between
// reading and writing it works, and may be told to stay. It looks at its hold
// after reading only, as a program does: no Check is so late that nothing can
// happen between it and the write.
func (w *worker) count(hold *qosmutex.Hold) error {
	bare := &counter{filepath.Join(w.Dir, hold.Resource()+".bare")}
	safe := &counter{filepath.Join(w.Dir, hold.Resource()+".safe")}
	guard := func(access func() error) error {
		if w.Reckless {
			return access()
		}
		return w.guards[hold.Resource()].Do(hold.Resource(), hold.Fence(), access)
	}
	var n, m int
	err := guard(func() (err error) { m, err = safe.read(); return err })
	if errors.Is(err, fence.ErrStale) {
		w.history.add(now(), refused, hold.Resource(), hold.Fence())
		return nil
	}
	if err != nil {
		return err
	}
	if n, err = bare.read(); err != nil {
		return err
	}
	if hold.Check() != nil && !w.Reckless {
		return nil
	}
	w.linger(hold)
	if err := bare.write(n + 1); err != nil {
		return err
	}
	w.history.add(now(), wrote, hold.Resource(), hold.Fence())
	switch err := guard(func() error { return safe.write(m + 1) }); {
	case errors.Is(err, fence.ErrStale):
		w.history.add(now(), refused, hold.Resource(), hold.Fence())
	case err != nil:
		return err
	default:
		w.history.add(now(), guarded, hold.Resource(), hold.Fence())
	}
	return nil
}

func (w *worker) linger(hold *qosmutex.Hold) {
	if w.stay.CompareAndSwap(true, false) {
		select {
		case <-w.proceed: // of an order before
		default:
		}
		w.history.add(now(), stays, hold.Resource(), hold.Fence())
		<-w.proceed
	}
	time.Sleep(working)
}
