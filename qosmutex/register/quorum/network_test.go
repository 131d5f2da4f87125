package quorum_test

import (
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"padme/qosmutex/register/quorum"
)

// network connects participants, and does to their messages whatever a transport may.
type network struct {
	mu       sync.Mutex
	random   *rand.Rand
	inboxes  map[string]func(from string, message []byte)
	cut      map[string]bool // participants that nobody reaches
	lose     float64
	twice    float64
	slowest  time.Duration
	messages int
}

func newNetwork(seed uint64) *network {
	return &network{random: rand.New(rand.NewPCG(seed, 1)), inboxes: map[string]func(string, []byte){}, cut: map[string]bool{}}
}

// port is the transport of one participant.
type port struct {
	n    *network
	self string
}

func (p port) Send(to string, message []byte) error {
	n := p.n
	n.mu.Lock()
	defer n.mu.Unlock()
	n.messages++
	copies := 1
	if n.random.Float64() < n.twice {
		copies = 2
	}
	for range copies {
		if n.random.Float64() < n.lose || n.cut[to] || n.cut[p.self] {
			continue
		}
		delay := time.Duration(0)
		if n.slowest > 0 {
			delay = time.Duration(n.random.Int64N(int64(n.slowest)))
		}
		time.AfterFunc(delay, func() { n.deliver(p.self, to, message) })
	}
	return nil
}

// slow has messages take up to d from now on.
func (n *network) slow(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slowest = d
}

func (n *network) deliver(from, to string, message []byte) {
	n.mu.Lock()
	inbox := n.inboxes[to]
	n.mu.Unlock()
	if inbox != nil {
		inbox(from, message)
	}
}

func (n *network) attach(id string, inbox func(string, []byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if inbox == nil {
		delete(n.inboxes, id)
	} else {
		n.inboxes[id] = inbox
	}
}

func (n *network) isolate(id string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[id] = cut
}

// restore loses nothing any more.
func (n *network) restore() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lose = 0
}

// fleet is some voters on a network, and their files.
type fleet struct {
	t      *testing.T
	n      *network
	dir    string
	lease  time.Duration
	voters map[string]*quorum.Voter
}

func newFleet(t *testing.T, seed uint64) *fleet {
	f := &fleet{t: t, n: newNetwork(seed), dir: t.TempDir(), lease: time.Millisecond, voters: map[string]*quorum.Voter{}}
	t.Cleanup(func() {
		for id := range f.voters {
			f.kill(id)
		}
	})
	return f
}

func (f *fleet) file(id string) string { return filepath.Join(f.dir, id) }

func (f *fleet) options(id string, voters []string) quorum.Options {
	return quorum.Options{
		Self: id, Voters: voters, File: f.file(id), Lease: f.lease,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// start starts a voter from its file.
func (f *fleet) start(id string, voters ...string) *quorum.Voter {
	f.t.Helper()
	return f.startWith(f.options(id, voters))
}

// startLogged has what a voter warns of written to log.
func (f *fleet) startLogged(id string, log io.Writer, voters ...string) *quorum.Voter {
	f.t.Helper()
	o := f.options(id, voters)
	o.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return f.startWith(o)
}

func (f *fleet) startWith(o quorum.Options) *quorum.Voter {
	f.t.Helper()
	id := o.Self
	v, err := quorum.Start(o, port{f.n, id})
	if err != nil {
		f.t.Fatal(err)
	}
	f.n.attach(id, v.Receive)
	f.voters[id] = v
	return v
}

// kill ends a voter's process.
func (f *fleet) kill(id string) {
	f.n.attach(id, nil)
	_ = f.voters[id].Close()
	delete(f.voters, id)
}

// cut ends a voter together with its machine: what it has not synced is lost.
func (f *fleet) cut(id string) {
	f.kill(id)
	_ = os.Remove(f.file(id) + ".unsynced")
}

func (f *fleet) client(id string, voters ...string) *quorum.Client {
	f.t.Helper()
	c, err := quorum.NewClient(voters, quorum.Timing{}, port{f.n, id})
	if err != nil {
		f.t.Fatal(err)
	}
	f.n.attach(id, c.Receive)
	return c
}

var abc = []string{"a", "b", "c"}
