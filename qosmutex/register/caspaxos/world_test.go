package caspaxos

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"time"

	"padme/qosmutex/register"
)

// The world of the model checker: a few voters, every message that was ever sent, and
// what an observer knows.
//
// Messages are a set that only grows, and each may be delivered at any time and any
// number of times, or never: so every loss, delay, duplicate and order is explored.
// There is no time: who backs off may go on at any moment. As messages stay, a
// repetition of one changes nothing and is left out.

// script is what a voter's application does, one after the other.
type script struct {
	read    bool
	renewal bool
	replace string // the voter that D takes the place of
}

// lease is the Renewal of a write.
func (s *script) lease() time.Duration {
	if s.renewal {
		return 1
	}
	return 0
}

// scenario bounds a world.
type scenario struct {
	name     string
	scripts  [4][]script // of A, B, C and D
	existing bool        // the key was written before, and all voters have it
	split    bool        // A has accepted a first write, and B another one under a higher ballot
	attempts int         // ballots of each op; default 2
	restarts int
	killed   bool   // the machines run on: who restarts finds what was not synced, too
	only     string // the voters that restart; default all of A, B and C
	power    int    // cuts, in which A, B and C restart at once
	wipes    int    // of voter C
	bound    int    // on the states; 0: they are explored to the fixpoint
	dead     string // voters that have died
	mutant   func(restarted *Machine)
}

const (
	voters = 4 // D is the replacement
	theKey = "k"
)

var names = [voters]string{"A", "B", "C", "D"}

// world is a state. Machines are named by number, so that a world is small.
type world struct {
	machines [voters]int32
	net      []int32 // sorted
	restarts int8
	power    int8
	wipes    int8
	ghost    ghost
	trace    *step
}

type step struct {
	what string
	prev *step
}

func (s *step) String() string {
	if s == nil {
		return ""
	}
	return s.prev.String() + "\n" + s.what
}

// client is a voter's application.
type client struct {
	done    int8
	running bool
	floor   uint8 // acked when it asked
	knows   uint8 // version that it was told of last
}

// vote is what was accepted under a ballot.
type vote struct {
	ballot Ballot
	by     uint8 // voters
	lost   uint8 // of them: have restarted since
	nonce  uint8
	firm   bool // a majority was met once: what is no renewal of it is there to stay
}

// explorer explores the worlds of a scenario.
type explorer struct {
	scenario
	config    *Config
	machines  []*Machine
	numbers   map[string]int32
	files     map[int32]file
	messages  []*Message
	ends      [][2]int // sender and receiver of each
	deads     map[deadKey]bool
	known     map[string]int32
	memo      map[memoKey]*effect
	seed      maphash.Seed
	seen      map[uint64]struct{}
	stack     []*world
	states    int
	moves     int
	answers   map[string]int
	installed int
	keepTrace bool
}

type memoKey struct {
	machine int32
	message int32 // or below 0: retry, quiet ends
	old     Stamp // what a write replaces
}

// effect is what a step of a machine does.
type effect struct {
	machine int32
	sent    []int32
	votes   []vote
	answers []Answer
}

func newExplorer(s scenario) (*explorer, *world) {
	e := &explorer{
		scenario: s, numbers: map[string]int32{}, files: map[int32]file{}, known: map[string]int32{},
		memo: map[memoKey]*effect{}, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}, answers: map[string]int{},
		deads: map[deadKey]bool{},
	}
	if e.attempts == 0 {
		e.attempts = 2
	}
	if e.only == "" {
		e.only = "ABC"
	}
	e.config = &Config{Domain: register.Domain{1}, Number: 1}
	for i := range 3 {
		e.config.Voters = append(e.config.Voters, Voter{names[i], uint64(i + 1)})
	}
	w := &world{restarts: int8(s.restarts), power: int8(s.power), wipes: int8(s.wipes)}
	for i := range 3 {
		m := &Machine{opts: e.options(i, 1), instance: uint64(i + 1), listed: e.config.IDs()}
		m.config = e.config
		m.slots = map[string]*slot{}
		if s.existing {
			first := Stamp{1, firstNonce}
			m.slots[theKey] = &slot{Slot: Slot{theKey, Ballot{1, 1, 0}, State{Stamp: first, Firm: first}}}
			m.ceiling = block
		}
		if s.split {
			m.ceiling = block
			if i == 1 {
				m.ceiling = 4 * block // its first attempt is above what A has promised by then
			}
		}
		if s.split && i < 2 {
			v := splitVotes[i]
			first := Stamp{1, uint64(v.nonce)}
			m.slots[theKey] = &slot{Slot: Slot{theKey, v.ballot, State{Stamp: first, Firm: first}}}
			w.ghost.votes = append(w.ghost.votes, v)
		}
		w.machines[i] = e.boot(i, 1, file{synced: m.Records()}, w)
		w.ghost.quiet = 0
	}
	if s.existing {
		w.ghost.acked = firstNonce
		for i := range w.ghost.ops {
			w.ghost.ops[i].knows = firstNonce
		}
		w.ghost.votes = []vote{{ballot: Ballot{1, 1, 0}, by: 7, nonce: firstNonce, firm: true}}
	}
	if slices.ContainsFunc(slices.Concat(s.scripts[:]...), func(s script) bool { return s.replace != "" }) {
		net := w.net
		w.machines[3] = e.boot(3, 1, file{}, w)
		w.net = net // it has asked before
		for i := range 2 {
			m := e.machines[w.machines[i]].clone()
			m.enrolled[names[3]] = asker{instance: 4}
			w.machines[i] = e.effect(m, e.files[w.machines[i]], &Output{}, nil).machine
		}
	} else {
		w.machines[3] = -1
	}
	return e, w
}

// splitVotes are what A and B have accepted in a world that is split.
var splitVotes = [...]vote{{ballot: Ballot{1, 1, 0}, by: 1, nonce: 10}, {ballot: Ballot{1, 2, 1}, by: 2, nonce: 11}}

const firstNonce = 7 // of the write that was there before; others are voter and place

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// renewal reports whether the write with a nonce is one.
func (e *explorer) isRenewal(nonce uint8) bool {
	for v := range e.scripts {
		for p := range e.scripts[v] {
			if e.writeNonce(v, int8(p)) == nonce {
				return e.scripts[v][p].renewal
			}
		}
	}
	return false
}

// writeNonce numbers the writes from 1, leaving out that of the first one.
func (e *explorer) writeNonce(voter int, place int8) uint8 {
	n := uint8(1)
	for v := range e.scripts {
		for p := range e.scripts[v] {
			if n == firstNonce {
				n++
			}
			if v == voter && int8(p) == place {
				return n
			}
			n++
		}
	}
	return n
}

func (e *explorer) options(voter int, boot uint64) Options {
	ids := []string{"A", "B", "C"}
	if voter == 3 {
		ids = []string{"A", "B", "D"}
	}
	never := Time(1) << 50 // and later still
	return Options{
		Self: names[voter], Voters: ids, Instance: uint64(voter+1) + 10*(boot>>40), Domain: register.Domain{1, byte(boot >> 40)},
		Boot: boot << 32, Resend: never, Backoff: 1, Lease: 1, Quiet: never,
	}
}

// boot starts a voter from a file.
func (e *explorer) boot(voter int, boot uint64, f file, w *world) int32 {
	var out Output
	opts := e.options(voter, boot)
	opts.Unsynced, opts.All = f.unsynced, e.killed
	m, err := New(opts, f.synced, 1, &out)
	if err != nil {
		panic(err)
	}
	if e.mutant != nil && boot > 1 {
		e.mutant(m)
	}
	if m.quiet > 0 && m.opts.Boot>>32 > 1 {
		w.ghost.quiet |= 1 << voter
	} else {
		m.quiet = 0
	}
	ef := e.effect(m, f, &out, nil)
	w.net = insert(w.net, ef.sent)
	return ef.machine
}

// file is what a voter has written.
type file struct{ synced, unsynced [][]byte }

// onDisk returns a machine that knows what is on the disk of m.
func (e *explorer) onDisk(m *Machine, synced, unsynced [][]byte) *Machine {
	disk := &Machine{opts: m.opts, slots: map[string]*slot{}}
	disk.opts.Unsynced, disk.opts.All = unsynced, e.killed
	if err := disk.replay(synced); err != nil {
		panic(err)
	}
	return disk
}

// effect records what a step has led to.
func (e *explorer) effect(m *Machine, f file, out *Output, before *Machine) *effect {
	f.synced = slices.Concat(f.synced, out.Persist)
	noted := slices.Concat(f.unsynced, out.Unsynced)
	if out.Whole {
		f.synced = out.Persist
		e.installed++
	}
	ef := &effect{answers: out.Answers}
	// What a voter would find on disk is part of its state, in the order of a snapshot.
	name := m.state() + "\x00"
	f.synced = e.onDisk(m, f.synced, nil).Records()
	for _, r := range f.synced[:len(f.synced)-1] { // not the serial
		name += string(r) + "\x00"
	}
	if f.unsynced = nil; e.killed {
		f.unsynced = e.onDisk(m, f.synced, noted).Unsynced()
	}
	for _, r := range f.unsynced {
		name += string(r) + "\x00"
	}
	n, ok := e.numbers[name]
	if !ok {
		n = int32(len(e.machines))
		e.numbers[name] = n
		e.machines = append(e.machines, m)
		e.files[n] = f
	}
	ef.machine = n
	for i := range out.Messages {
		msg := out.Messages[i]
		msg.Run.Base, msg.Run.Serial = 0, 0 // else all states are different
		b := string(AppendMessage(append([]byte(msg.From), msg.To...), &msg))
		id, ok := e.known[b]
		if !ok {
			id = int32(len(e.messages))
			e.known[b] = id
			e.messages = append(e.messages, &msg)
			e.ends = append(e.ends, [2]int{slices.Index(names[:], msg.From), slices.Index(names[:], msg.To)})
		}
		ef.sent = append(ef.sent, id)
	}
	if before != nil && m.config != nil && m.config == before.config {
		if s, old := m.slots[theKey], before.slots[theKey]; s != nil && (old == nil || old.Accepted != s.Accepted) && !s.Accepted.IsZero() {
			ef.votes = append(ef.votes, vote{ballot: s.Accepted, nonce: uint8(s.State.Stamp.Nonce)})
		}
	}
	return ef
}

// Actions without a message.
const (
	retry = -1 - iota
	calm  // a voter has been quiet for long enough
	ask
)

// do makes a step of a voter, from what is known of such a step.
func (e *explorer) do(w *world, voter int, action int32) *effect {
	key := memoKey{machine: w.machines[voter], message: action}
	c := w.ghost.ops[voter]
	if action == ask {
		key.message -= int32(c.done)
		key.old = e.stamp(&w.ghost, c.knows)
	}
	ef, ok := e.memo[key]
	if ok {
		return ef
	}
	before := e.machines[w.machines[voter]]
	m := before.clone()
	var out Output
	in := Input{Kind: Tick}
	switch {
	case action >= 0:
		in = Input{Kind: Receive, Message: e.messages[action]}
	case action == ask:
		in = e.question(w, voter)
	default:
		m.free(action == calm, e.attempts, &out)
	}
	_ = m.Step(1, &in, &out)
	ef = e.effect(m, e.files[w.machines[voter]], &out, before)
	e.memo[key] = ef
	return ef
}

// free has a machine do at once what it would do after a while.
func (m *Machine) free(calm bool, attempts int, out *Output) {
	m.out = out
	if calm {
		m.quiet = 0
		for _, o := range m.ops {
			o.again = 0
		}
		if m.install != nil {
			m.install.again = 0
		}
	}
	for _, o := range m.ops {
		if o.phase == waiting && o.attempts < attempts {
			o.again = 0
		}
	}
}

// canRetry reports whether free would change something.
func (m *Machine) canRetry(attempts int) bool {
	return slices.ContainsFunc(m.ops, func(o *op) bool {
		return o.phase == waiting && m.voting() && o.attempts < attempts
	})
}

// question is what a voter's application asks next.
func (e *explorer) question(w *world, voter int) Input {
	c := w.ghost.ops[voter]
	s := e.scripts[voter][c.done]
	switch {
	case s.read:
		return Input{Kind: Ask, Seq: uint64(c.done) + 1, Keys: []string{theKey}}
	case s.replace != "":
		return Input{Kind: Replace, Seq: uint64(c.done) + 1, Old: s.replace, New: "D"}
	}
	return Input{Kind: Ask, Seq: uint64(c.done) + 1, Writes: []register.Write{{
		Key: theKey, Old: e.config.version(e.stamp(&w.ghost, c.knows)), Nonce: uint64(e.writeNonce(voter, c.done)), Renewal: s.lease(),
	}}}
}

// stamp returns the stamp of a version that somebody was told of.
func (e *explorer) stamp(g *ghost, nonce uint8) Stamp {
	if nonce == 0 {
		return Stamp{}
	}
	n := uint64(1)
	for p := nonce; p != firstNonce && g.parents[p] != 0; p = g.parents[p] {
		n++
	}
	return Stamp{n, uint64(nonce)}
}

// key is the fingerprint of a world.
func (e *explorer) key(w *world) uint64 {
	b := make([]byte, 0, 256)
	for _, m := range w.machines {
		b = binary.AppendVarint(b, int64(m))
	}
	b = binary.AppendVarint(b, int64(len(w.net)))
	for _, id := range w.net {
		b = binary.AppendVarint(b, int64(id))
	}
	g := &w.ghost
	b = append(b, byte(w.restarts), byte(w.power), byte(w.wipes), g.acked, g.quiet)
	b = append(b, g.parents[:]...)
	b = binary.AppendUvarint(b, uint64(g.denied))
	for _, c := range g.ops {
		b = append(b, byte(c.done), boolByte(c.running), c.floor, c.knows)
	}
	for _, v := range g.votes {
		b = append(b, byte(v.ballot.Config), v.ballot.Voter, v.by, v.lost, v.nonce, boolByte(v.firm))
		b = binary.AppendUvarint(b, v.ballot.Round)
	}
	return maphash.Bytes(e.seed, b)
}
