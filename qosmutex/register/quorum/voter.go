package quorum

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/internal/throttle"
	"padme/internal/vanished"
	"padme/qosmutex/internal/limited"
	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/internal/parts"
	"padme/qosmutex/register/journal"
)

// Kind is the kind of the journal of a voter.
const Kind = "voter of a register"

// Voter is one voter, and a register for its own process.
type Voter struct {
	opts      Options
	transport Transport
	log       *slog.Logger
	begun     time.Time
	disk      disk
	compactAt int64
	keepAt    caspaxos.Time // when what is unsynced may be kept: the last attempt has failed

	inputs  chan caspaxos.Input
	arrived chan struct{} // signals that a message waits
	stop    chan struct{}
	stopped chan struct{}
	close   sync.Once // of stop

	turns   turns
	callers parts.Callers

	mu       sync.Mutex
	waiting  map[uint64]chan caspaxos.Answer
	lastSeq  uint64
	status   caspaxos.Status
	statusAt time.Time
	enrolled time.Time        // since when it knows its domain; zero: it does not
	syncs    [8]time.Duration // how long the last writes took
	nextSync int
	err      error // why it ended
	vanished error // its file is not at its path any more

	reached   *limited.Log         // limits, of others
	toldCause string               // the one that was logged last, of those that last; for note alone
	told      throttle.Log[string] // of causes
}

var _ register.Register = (*Voter)(nil)

// Start starts a voter. The transport must call Receive for each message that
// arrives, from then on.
func Start(opts Options, t Transport) (*Voter, error) {
	return start(opts, t, func(replay func([]byte) error) (disk, error) { return journal.Open(opts.File, Kind, replay) })
}

// disk is what a voter needs of a journal.
type disk interface {
	Append(records ...[]byte) error
	Compact(records ...[]byte) error
	Unsynced() (records [][]byte, all bool)
	BeginUnsynced(records ...[]byte) error
	WantsUnsynced() bool
	Look(records func() [][]byte) (recreated bool, err error)
	Note(records ...[]byte) error
	Size() int64
	Opens() uint64
	Close() error
}

func start(opts Options, t Transport, open func(replay func([]byte) error) (disk, error)) (*Voter, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	v := &Voter{
		opts: opts, transport: t, begun: time.Now(), log: opts.Logger.With("voter", opts.Self),
		inputs: make(chan caspaxos.Input), arrived: make(chan struct{}, 1),
		stop: make(chan struct{}), stopped: make(chan struct{}), waiting: map[uint64]chan caspaxos.Answer{},
	}
	v.reached = limited.New(v.log, "from", voterLimits)
	v.turns.rate, v.turns.reached = opts.Rate, v.reached
	var records [][]byte
	d, err := open(func(r []byte) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	v.disk, v.compactAt = d, minCompact
	var out caspaxos.Output
	machine := v.machineOptions()
	machine.Unsynced, machine.All = d.Unsynced()
	m, err := caspaxos.New(machine, records, v.now(), &out)
	if err == nil {
		err = v.persist(m, &out)
	}
	if err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("register: %s: %w", opts.File, err)
	}
	v.note(m)
	go v.run(m, out)
	return v, nil
}

func (v *Voter) machineOptions() caspaxos.Options {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	if s := v.opts.seed; s != 0 {
		binary.BigEndian.PutUint64(b[:], s)
	}
	t := v.opts.Timing
	return caspaxos.Options{
		Self: v.opts.Self, Voters: v.opts.Voters, Instance: register.NewNonce(), Domain: register.NewDomain(),
		Boot: v.disk.Opens()<<32 | uint64(binary.BigEndian.Uint32(b[8:])), Seed: binary.BigEndian.Uint64(b[:]),
		Resend: caspaxos.Time(t.Resend), Backoff: caspaxos.Time(t.Backoff), Probe: caspaxos.Time(t.Probe),
		Lease: caspaxos.Time(v.opts.Lease), Quiet: caspaxos.Time(v.opts.quiet()), Names: v.opts.Names,
	}
}

// now is the time of the machine. While the computer sleeps it may stand still: then
// the voter is quiet for longer.
func (v *Voter) now() caspaxos.Time { return caspaxos.Time(time.Since(v.begun)) + 1 }

// Receive takes a message of another participant, whose name the transport vouches
// for. It does not block, and keeps nothing of message.
func (v *Voter) Receive(from string, message []byte) {
	if caspaxos.KindOf(message) == caspaxos.KindInquire { // is answered also while the disk hangs
		v.inquired(from, message)
		return
	}
	taken := v.turns.add(from, message, v.now())
	v.tellLimits()
	if !taken {
		return
	}
	select {
	case v.arrived <- struct{}{}:
	default:
	}
}

// inquired tells somebody how this voter is.
func (v *Voter) inquired(from string, message []byte) {
	msg, err := caspaxos.Decode(message)
	if err != nil {
		v.log.Debug("message dropped", "from", from, "error", err)
		return
	}
	paid := v.turns.pay(from, inquiry, v.now())
	v.tellLimits()
	if !paid {
		return
	}
	msg.From = from
	r := v.Report()
	reply := caspaxos.Message{Kind: caspaxos.KindReport, Seq: msg.Seq, Text: r.text()}
	if err := v.transport.Send(msg.From, caspaxos.AppendMessage(nil, &reply)); err != nil {
		v.log.Debug("message not sent", "kind", reply.Kind, "to", msg.From, "error", err)
	}
}

// run drives the machine until the voter is closed or its disk fails.
func (v *Voter) run(m *caspaxos.Machine, out caspaxos.Output) {
	defer close(v.stopped)
	defer v.turns.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	looks := time.NewTicker(vanished.Every)
	defer looks.Stop()
	always, again := make(chan struct{}), (chan struct{})(nil)
	close(always)
	var due caspaxos.Time // when the turn of a message comes
	for {
		v.deliver(&out)
		at := out.WakeAt
		if due != 0 && (at == 0 || due < at) {
			at = due
		}
		if at != 0 {
			timer.Reset(time.Duration(at - v.now()))
		}
		out = caspaxos.Output{WakeAt: out.WakeAt}
		select {
		case <-v.stop:
			v.end(register.ErrClosed)
			return
		case in := <-v.inputs:
			v.step(m, &in, &out)
		case <-v.arrived:
		case <-again:
		case <-timer.C:
			v.step(m, &caspaxos.Input{}, &out)
		case <-looks.C:
			v.look(m)
		}
		more, at := v.turns.take(m, v.now(), func(msg *caspaxos.Message) { // one sync for all of them
			v.step(m, &caspaxos.Input{Kind: caspaxos.Receive, Message: msg}, &out)
		})
		v.tellLimits()
		if due, again = at, nil; more {
			again = always
		}
		if err := v.persist(m, &out); err != nil {
			v.log.Error("the voter has ended: its file cannot be written", "error", err)
			v.end(err)
			return
		}
		v.note(m)
	}
}

func (v *Voter) step(m *caspaxos.Machine, in *caspaxos.Input, out *caspaxos.Output) {
	if err := m.Step(v.now(), in, out); err != nil {
		v.log.Debug("input dropped", "error", err)
	}
}

// minCompact is the size below which no journal is compacted.
const minCompact = 1 << 20

// persist keeps what must be kept before anything is sent.
func (v *Voter) persist(m *caspaxos.Machine, out *caspaxos.Output) error {
	if err := v.sync(m, out); err != nil {
		return err
	}
	err := v.keep(m, out.Unsynced)
	if !errors.Is(err, journal.ErrUnnoted) {
		return err
	}
	v.keepAt = v.now() + keepAgain
	if v.told.May("unnoted", time.Now()) {
		v.log.Warn("renewals are not kept for the next start: this voter would answer nothing for a while then", "error", err)
	}
	return nil
}

// keepAgain is after how long a file that could not be written is begun again.
const keepAgain = caspaxos.Time(10 * time.Second)

// keep writes what need not outlive the machine. As long as the voter is quiet, because the run
// before has not done so, the next one would have to be quiet as well.
func (v *Voter) keep(m *caspaxos.Machine, records [][]byte) error {
	if err := v.disk.Note(records...); err != nil {
		return err
	}
	if v.disk.WantsUnsynced() && v.now() >= max(m.QuietUntil(), v.keepAt) {
		return v.disk.BeginUnsynced(m.Unsynced()...)
	}
	return nil
}

// sync writes what must outlive the machine.
func (v *Voter) sync(m *caspaxos.Machine, out *caspaxos.Output) error {
	if len(out.Persist) == 0 {
		return nil
	}
	if !out.Whole {
		begun := time.Now()
		if err := v.disk.Append(out.Persist...); err != nil {
			return err
		}
		v.synced(time.Since(begun))
		if v.disk.Size() < v.compactAt {
			return nil
		}
	}
	err := v.disk.Compact(m.Records()...)
	if errors.Is(err, journal.ErrVanished) { // look tells
		v.compactAt = 2 * v.disk.Size()
		if !out.Whole {
			return nil // it has what counts
		}
		// All of them or none: in one frame, of at most journal.MaxFrame. A voter that has more ends if its
		// file is elsewhere when a voter is replaced.
		err := v.disk.Append(m.Records()[1:]...)
		if errors.Is(err, journal.ErrTooMuch) {
			err = fmt.Errorf("a voter was replaced while the file of this one was not at its path: put that back, and start this voter again; otherwise, %s: %w", v.otherwise(), err)
		}
		return err
	}
	if err != nil {
		return err
	}
	v.compactAt = max(minCompact, 4*v.disk.Size())
	return nil
}

// synced notes how long a write took.
func (v *Voter) synced(took time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.syncs[v.nextSync] = took
	v.nextSync = (v.nextSync + 1) % len(v.syncs)
}

func (v *Voter) slowestSync() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Max(v.syncs[:])
}

// deliver sends messages and hands out answers.
func (v *Voter) deliver(out *caspaxos.Output) {
	for i := range out.Messages {
		msg := &out.Messages[i]
		if err := v.transport.Send(msg.To, caspaxos.AppendMessage(nil, msg)); err != nil {
			v.log.Debug("message not sent", "kind", msg.Kind, "to", msg.To, "error", err)
		}
	}
	for _, a := range out.Answers {
		v.mu.Lock()
		c := v.waiting[a.Seq]
		delete(v.waiting, a.Seq)
		v.mu.Unlock()
		if c != nil {
			c <- a
		}
	}
}

// end lets those who wait know that nobody will answer.
func (v *Voter) end(err error) {
	v.mu.Lock()
	v.err = err
	v.mu.Unlock()
}

// note remembers the status, and logs what changed.
func (v *Voter) note(m *caspaxos.Machine) {
	s := m.Status(v.now())
	s.Missing = v.missed(&s)
	v.mu.Lock()
	was := v.status
	v.status, v.statusAt = s, time.Now()
	if v.enrolled.IsZero() && s.Config != nil {
		v.enrolled = v.statusAt
	}
	v.mu.Unlock()
	v.tell(&s)
	v.turns.know(known(&s))
	v.refuses(&s, &was)
	votes := s.Phase == caspaxos.Voting
	if s.Phase != was.Phase {
		v.log.Info("voter is "+s.Phase.String(), "quiet", time.Duration(s.Quiet))
	}
	if (votes || problem(v.opts.Self, &s) == "") && !slices.Equal(s.Missing, was.Missing) {
		v.alarm(&s)
	}
}

// tell logs why the voter does not vote, or what is odd, when that begins. Several others may
// say so in turn, many times a second, and may have several reasons: each is worth a line a
// minute.
func (v *Voter) tell(s *caspaxos.Status) {
	why := cause(v.opts.Self, s)
	if why == v.toldCause {
		return
	}
	if why == "" {
		v.toldCause = ""
		return
	}
	if !v.told.May(why, time.Now()) {
		return
	}
	v.toldCause = why
	trouble := problem(v.opts.Self, s)
	if s.Phase == caspaxos.Voting { // whoever said that need not matter
		v.log.Warn(trouble)
	} else {
		v.log.Error("this voter does not vote: " + trouble)
	}
}

// known lists the voters that there are, or are to be.
func known(s *caspaxos.Status) []string {
	if s.Config != nil {
		return s.Config.IDs()
	}
	return s.Listed
}

// missed are the other voters that do not answer, once they had the time to.
func (v *Voter) missed(s *caspaxos.Status) []string {
	if time.Since(v.begun) < 4*max(v.opts.Timing.Probe, v.opts.Timing.Resend) {
		return nil
	}
	return s.Missing
}

// alarm logs which voters are missing, from the first one on.
func (v *Voter) alarm(s *caspaxos.Status) {
	missing := strings.Join(s.Missing, ",")
	switch {
	case missing == "":
		v.log.Warn("no voter is missing any more") // as loud as the alarm that it ends
	case s.Config == nil:
		v.log.Warn("waiting for voters that have not been started with this list yet: until then nothing can be locked", "missing", missing, "voters", strings.Join(s.Listed, ","))
	case 2*len(s.Missing) >= len(s.Config.Voters):
		v.log.Error("a majority of the voters is missing: nothing can be locked until one is back", "missing", missing)
	default:
		v.log.Warn("a voter is missing: start it again, or replace it with \"pubsub-node voters replace\"", "missing", missing)
	}
}

// Status returns what the voter knows about itself and the others.
func (v *Voter) Status() caspaxos.Status {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.status
	s.Quiet = max(0, s.Quiet-caspaxos.Time(time.Since(v.statusAt)))
	return s
}

// Missing lists the other voters that do not answer.
func (v *Voter) Missing() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.status.Missing
}

// Done is closed when the voter has ended: it was closed, or its file cannot be written,
// which Err says.
func (v *Voter) Done() <-chan struct{} { return v.stopped }

// Err says why the voter has ended; nil: it has not.
func (v *Voter) Err() error { return v.ended() }

// Close stops the voter and frees its file. Calls in progress fail.
func (v *Voter) Close() error {
	v.close.Do(func() { close(v.stop) })
	<-v.stopped
	return v.disk.Close()
}
