package caspaxos

import (
	"errors"
	"fmt"
	"slices"

	"padme/qosmutex/register"
)

// Options configure a voter.
type Options struct {
	Self   string
	Voters []string // of the first configuration, or of the one that it is to join: 1, 3 or 5

	// Random numbers for a voter whose file is empty.
	Instance uint64 // not 0
	Domain   register.Domain

	Boot uint64 // how often the file was opened, times 2³², and a random number below
	Seed uint64 // random: decides how long it backs off

	Resend  Time // a message without an answer is repeated after this long
	Backoff Time // a proposer that lost a race waits for at least half of this
	Lease   Time // renewals of leases up to this are not synced
	Quiet   Time // after a restart: Lease, stretched by the drift of clocks
	Probe   Time // between signs of life to the other voters; 0: none

	Names int // that one client creates at once; 0: MaxNames. It may differ between voters

	// Unsynced is Output.Unsynced of the run before, in order. If All, nothing is missing:
	// only the process was restarted, and need not be quiet.
	Unsynced [][]byte
	All      bool
}

// Machine is one voter. Its methods must not be called concurrently.
type Machine struct {
	opts     Options
	out      *Output // of the step in progress
	now      Time
	instance uint64
	listed   []string // voters of its configuration when it enrolled
	serial   uint64   // records ever written
	base     uint64   // serial at the start
	random   uint64

	config *Config // in which it votes; nil: none yet
	next   *Config // decided, but not installed here: config is sealed
	slots  map[string]*slot
	seen   uint64 // highest round that was met
	// ceiling bounds all rounds that were promised, accepted or used, and is on disk.
	// floor is what it was at the start.
	ceiling, floor uint64
	quiet          Time // nothing is answered before
	owed           Time // on disk: for how long nothing is answered after a restart
	forgotten      Time // what the runs before left unsynced has expired

	ops      []*op
	lastSeq  uint64
	owing    map[string]Time  // when a client will have paid for the names that it created
	denied   refusals         // requests of clients that have created too many names
	full     refusals         // ballots about names for which there is no room
	crowded  refusals         // questions of this process while too many were going on
	enrolled map[string]asker // those that ask to be voters
	named    string           // by an operator, in vain: it has a place among them when it asks
	install  *install
	peers    map[string]*peer
	enrollAt Time
	probeAt  Time
	refusal  Reason
	refuser  Message // who refuses
	refused  Time    // when it did last
	foreign  string  // a voter of another domain that sends messages
}

// slot is what a voter knows of a key.
type slot struct {
	Slot
	promised Ballot
	onDisk   Stamp // Firm of what is on disk
}

// asker is an instance that asks to be a voter.
type asker struct {
	instance uint64
	heard    Time
}

// peer is what is known of another voter.
type peer struct {
	run   Run
	heard Time
}

// InputKind tells inputs apart.
type InputKind uint8

// Kinds of inputs.
const (
	Tick    InputKind = iota // time has passed
	Receive                  // Message has arrived
	Ask                      // the application reads Keys or makes Writes
	Replace                  // an operator replaces voter Old by New
	Cancel                   // of the Ask or Replace with this Seq
)

// Input is one thing that happened.
type Input struct {
	Kind     InputKind
	Message  *Message // not changed afterwards
	Seq      uint64   // chosen by the caller, not 0
	Keys     []string
	Writes   []register.Write
	Old, New string
	Until    Time // 0: no end
}

// Output is what follows. The caller must handle it in this order: make Persist
// durable, all of it or nothing; send Messages; hand out Answers. If Persist fails,
// the machine must not be used any more. Outputs may be gathered over several steps.
type Output struct {
	Persist  [][]byte
	Whole    bool     // Persist replaces everything that was written before
	Unsynced [][]byte // records to be kept before Messages are sent, for Options.Unsynced, or not at all
	Messages []Message
	Answers  []Answer
	WakeAt   Time // when to Step with a Tick; 0: no need
}

// Answer is what came of an Ask or Replace.
type Answer struct {
	Seq     uint64
	Entries []register.Entry  // of Keys
	Results []register.Result // of Writes
	Err     error             // an *register.Unavailable, or of a Replace
}

// ErrLarge is the error of an Ask about keys whose values together do not fit into a
// message. Nothing was written: ask in parts.
var ErrLarge = errors.New("caspaxos: the values do not fit into one message")

// ErrDropped is what the errors of Step wrap: an input that changed nothing.
var ErrDropped = errors.New("caspaxos: dropped")

// New returns the voter whose file has these records. What it needs to have written
// and sent is appended to out.
func New(opts Options, records [][]byte, now Time, out *Output) (*Machine, error) {
	voters, err := CheckVoters(opts.Voters)
	if err != nil {
		return nil, err
	}
	m := &Machine{
		opts: opts, out: out, now: now, random: opts.Seed, slots: map[string]*slot{},
		lastSeq: opts.Boot, enrolled: map[string]asker{}, peers: map[string]*peer{}, owing: map[string]Time{},
	}
	if !slices.Contains(voters, opts.Self) {
		return nil, fmt.Errorf("%w: %q is not among the voters %v", register.ErrInvalid, opts.Self, voters)
	}
	if err := m.replay(records); err != nil {
		return nil, err
	}
	if len(records) == 0 {
		m.instance, m.listed = opts.Instance, voters
		m.persist(m.selfRecord())
	}
	if !m.started(voters) {
		if m.newest() != nil {
			return nil, m.otherVoters(voters)
		}
		// It has never voted. Whoever enrolled it with the other list knows another instance.
		m.instance, m.listed = opts.Instance, voters
		out.Persist, out.Whole = m.Records(), true
	}
	m.base, m.floor, m.seen = m.serial, m.ceiling, m.ceiling
	if len(m.slots) > 0 {
		m.forgotten = now + m.owed
	}
	if !m.opts.All {
		m.quiet = m.forgotten
	}
	m.opts.Unsynced = nil
	m.owe()
	if m.config == nil {
		m.enroll()
	}
	m.resume()
	out.WakeAt = m.wakeAt()
	return m, nil
}

// started reports whether the voter may be started with this list: the one that it was
// enrolled with, or the one that it knows of now, or one in which another voter was
// replaced meanwhile.
func (m *Machine) started(voters []string) bool {
	if slices.Equal(voters, m.listed) {
		return true
	}
	c := m.newest()
	if c == nil || len(voters) != len(c.Voters) {
		return false
	}
	unknown := 0
	for _, id := range voters {
		if c.index(id) < 0 {
			unknown++
		}
	}
	return unknown <= 1
}

func (m *Machine) otherVoters(voters []string) error {
	return fmt.Errorf("%w: the file of %q was enrolled with the voters %v, not %v: start it with those, or remove the file and replace the voter",
		register.ErrInvalid, m.opts.Self, m.newest().IDs(), voters)
}

// Step handles one input. An error that wraps ErrDropped says why nothing was done.
func (m *Machine) Step(now Time, in *Input, out *Output) error {
	m.now, m.out = max(m.now, now), out
	var err error
	switch in.Kind {
	case Receive:
		err = m.receive(in.Message)
	case Ask:
		m.begin(&op{id: opID{seq: in.Seq}, keys: in.Keys, writes: in.Writes, until: in.Until})
	case Replace:
		m.replace(opID{seq: in.Seq}, in.Old, in.New, in.Until)
	case Cancel:
		if o := m.find(func(o *op) bool { return o.id == opID{seq: in.Seq} }); o != nil {
			m.giveUp(o)
		}
	}
	m.tick()
	out.WakeAt = m.wakeAt()
	return err
}

func dropped(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDropped, fmt.Sprintf(format, args...))
}

// tick does what is due.
func (m *Machine) tick() {
	if m.refusal == ReasonRestored {
		return
	}
	if m.config == nil && m.next == nil && m.now >= m.enrollAt {
		m.forgive()
		m.enroll()
	}
	if m.install != nil && m.now >= m.install.again {
		m.fetch()
	}
	for _, o := range slices.Clone(m.ops) {
		switch {
		case !slices.Contains(m.ops, o): // answered meanwhile
		case o.until != 0 && m.now >= o.until:
			m.giveUp(o)
		case m.now >= o.again:
			m.repeat(o)
		}
	}
	if m.opts.Probe > 0 && m.now >= m.probeAt && m.config != nil {
		m.probeAt = m.now + m.opts.Probe
		m.owe()
		for _, v := range m.config.Voters {
			m.send(v.ID, &Message{Kind: KindHello})
		}
	}
}

func (m *Machine) wakeAt() Time {
	var at Time
	sooner := func(t Time) {
		if at == 0 || t < at {
			at = max(t, m.now+1)
		}
	}
	if m.refusal == ReasonRestored {
		return 0
	}
	if m.config == nil && m.next == nil {
		sooner(m.enrollAt)
	}
	if m.install != nil {
		sooner(m.install.again)
	}
	for _, o := range m.ops {
		sooner(o.again)
		if o.until != 0 {
			sooner(o.until)
		}
	}
	if m.opts.Probe > 0 && m.config != nil {
		sooner(m.probeAt)
	}
	return at
}

// send puts a message on the way, to others only.
func (m *Machine) send(to string, msg *Message) {
	if to == m.opts.Self {
		return
	}
	msg.From, msg.To = m.opts.Self, to
	msg.Run = Run{m.instance, m.opts.Boot, m.base, m.serial}
	if m.config != nil {
		msg.Domain, msg.Config = m.config.Domain, m.config.Number
	}
	m.out.Messages = append(m.out.Messages, *msg)
}

// receive checks what every message says about its sender.
func (m *Machine) receive(msg *Message) error {
	if m.refusal == ReasonRestored {
		return dropped("this voter's file is older than what it has said")
	}
	switch msg.Kind {
	case KindReject:
		return m.rejected(msg)
	case KindEnroll:
		return m.enrollment(msg)
	}
	if m.config != nil && msg.Domain != m.config.Domain && msg.Domain != (register.Domain{}) {
		if msg.Kind != KindRequest {
			m.foreign = msg.From
			m.send(msg.From, &Message{Kind: KindReject, Reason: ReasonDomain, About: msg.Run.Boot})
		}
		return dropped("%v of %s is of domain %v", msg.Kind, msg.From, msg.Domain)
	}
	if err := m.meet(msg); err != nil {
		return err
	}
	switch msg.Kind {
	case KindCurrent:
		if !m.trusts(msg.From) {
			return dropped("Current of %s, which is no voter that this one knows", msg.From)
		}
		return m.learn(msg.Next)
	case KindFetch:
		return m.fetched(msg)
	case KindPage:
		return m.page(msg)
	case KindRequest:
		return m.request(msg)
	case KindReplace:
		return m.requestReplace(msg)
	}
	if m.config == nil {
		return dropped("%v of %s, but this voter is in no configuration yet", msg.Kind, msg.From)
	}
	known := m.newest()
	switch {
	case msg.Config < known.Number && msg.Config != m.config.Number:
		m.send(msg.From, &Message{Kind: KindCurrent, Next: known})
		return dropped("%v of %s is of configuration %d", msg.Kind, msg.From, msg.Config)
	case msg.Config > known.Number:
		m.send(msg.From, &Message{Kind: KindHello}) // have it say what is current
		return dropped("%v of %s is of configuration %d", msg.Kind, msg.From, msg.Config)
	case msg.Config != m.config.Number:
		return dropped("%v of %s is of configuration %d, which is not installed", msg.Kind, msg.From, msg.Config)
	case !m.config.has(msg.From, msg.Run.Instance):
		return dropped("%v of %s, which is no voter", msg.Kind, msg.From)
	case m.next != nil: // this voter has sealed its configuration
		m.send(msg.From, &Message{Kind: KindCurrent, Next: m.next})
		return dropped("%v of %s is of configuration %d, which is sealed", msg.Kind, msg.From, msg.Config)
	}
	return m.vote(msg)
}

// vote handles the messages of a configuration.
func (m *Machine) vote(msg *Message) error {
	const ahead = 1 << 32
	if msg.Ballot.Config > m.config.Number || msg.Ballot.Round > m.seen+ahead || msg.Round > m.seen+ahead {
		return dropped("%v of %s is more than 2³² rounds ahead", msg.Kind, msg.From)
	}
	switch msg.Kind {
	case KindHello:
		return nil
	case KindPrepare, KindAccept, KindRead:
		if m.now < m.quiet {
			return dropped("%v of %s, but this voter has restarted and may have forgotten renewals", msg.Kind, msg.From)
		}
		reply := m.consider(msg)
		m.send(msg.From, &reply)
		return nil
	case KindPromise, KindAccepted, KindRefused, KindValues:
		return m.counted(msg)
	}
	return dropped("%v of %s", msg.Kind, msg.From)
}

// newest returns the newest configuration that is decided.
func (m *Machine) newest() *Config {
	if m.next != nil {
		return m.next
	}
	return m.config
}
