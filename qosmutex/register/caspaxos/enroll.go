package caspaxos

import (
	"maps"
	"slices"

	"padme/qosmutex/register"
)

// MaxEnrolled bounds how many instances a voter remembers of those that ask. Beyond that the
// latest take the places of those that it has not heard of for longest, as a voter that lives
// repeats what it asks.
const MaxEnrolled = 16

// enroll offers this voter's instance to the others. The first of the list, which
// collects the instances, enrolls itself.
func (m *Machine) enroll() {
	m.enrollAt = m.now + m.opts.Resend
	for _, id := range m.listed {
		m.send(id, &Message{Kind: KindEnroll, Voters: m.listed})
	}
	m.configureFirst()
}

// configureFirst makes the first configuration once every listed voter has enrolled.
func (m *Machine) configureFirst() {
	if m.listed[0] != m.opts.Self || m.config != nil || m.next != nil {
		return
	}
	c := &Config{Domain: m.opts.Domain, Number: 1}
	for _, id := range m.listed {
		instance := m.enrolled[id].instance
		if id == m.opts.Self {
			instance = m.instance
		}
		if instance == 0 {
			return
		}
		c.Voters = append(c.Voters, Voter{id, instance})
	}
	m.adopt(c)
	for _, id := range m.listed {
		m.send(id, &Message{Kind: KindCurrent, Next: c})
	}
}

// adopt begins to vote in a configuration.
func (m *Machine) adopt(c *Config) {
	m.config, m.next, m.refusal = c, nil, ReasonNone
	clear(m.enrolled)
	m.persist(configRecord(recordConfig, c))
	m.resume()
}

// enrollment answers a voter that has no configuration.
func (m *Machine) enrollment(msg *Message) error {
	instance := msg.Run.Instance
	if instance == 0 {
		return dropped("Enroll of %s without an instance", msg.From)
	}
	known := m.newest()
	if known == nil {
		if !slices.Contains(m.listed, msg.From) || !slices.Equal(m.listed, msg.Voters) {
			m.send(msg.From, &Message{Kind: KindReject, Reason: ReasonVoters, Voters: m.listed, About: msg.Run.Boot})
			return dropped("%s was started with the voters %v, not %v", msg.From, msg.Voters, m.listed)
		}
		m.enrolled[msg.From] = asker{instance, m.now}
		m.peers[msg.From] = &peer{run: msg.Run, heard: m.now}
		m.configureFirst()
		return nil
	}
	if known.has(msg.From, instance) {
		m.send(msg.From, &Message{Kind: KindCurrent, Next: known})
		return nil
	}
	if _, ok := m.enrolled[msg.From]; !ok && len(m.enrolled) >= MaxEnrolled {
		delete(m.enrolled, m.silentest())
	}
	m.enrolled[msg.From] = asker{instance, m.now} // for an operator that wants it
	reason := ReasonVoters
	if known.index(msg.From) >= 0 {
		reason = ReasonWiped
	}
	m.send(msg.From, &Message{Kind: KindReject, Reason: reason, Voters: known.IDs(), About: msg.Run.Boot})
	return nil
}

// silentest is who has not asked to be a voter for longest, but for whom an operator has named.
func (m *Machine) silentest() (id string) {
	for _, other := range slices.Sorted(maps.Keys(m.enrolled)) {
		if other != m.named && (id == "" || m.enrolled[other].heard < m.enrolled[id].heard) {
			id = other
		}
	}
	return id
}

// rejected notes why this voter cannot be one. It speaks of one run only.
func (m *Machine) rejected(msg *Message) error {
	if msg.About != m.opts.Boot {
		return dropped("Reject of %s is about an earlier run", msg.From)
	}
	switch {
	case msg.Reason == ReasonDomain:
		m.foreign = msg.From
	case msg.Reason == ReasonRestored && m.config != nil && m.config.index(msg.From) >= 0,
		msg.Reason != ReasonRestored && m.config == nil:
		m.refusal, m.refuser, m.refused = msg.Reason, *msg, m.now
	}
	return nil
}

// forgive forgets the refusal of one that was started with another list and is not
// enrolled either, if it does not repeat it: it may have been started again.
func (m *Machine) forgive() {
	if m.refusal == ReasonVoters && m.refuser.Config == 0 && m.now > m.refused+m.patience() {
		m.refusal = ReasonNone
	}
}

// patience is how long a voter that lives is not heard of at most.
func (m *Machine) patience() Time { return 3 * max(m.opts.Probe, m.opts.Resend) }

// meet notes that a voter lives, and finds out whether its file is older than what it
// has said.
func (m *Machine) meet(msg *Message) error {
	if m.config == nil || !m.config.has(msg.From, msg.Run.Instance) {
		return nil
	}
	p := m.peers[msg.From]
	if p == nil {
		p = &peer{run: msg.Run}
		m.peers[msg.From] = p
	}
	const counter = 32
	switch was, is := p.run.Boot>>counter, msg.Run.Boot>>counter; {
	case msg.Run.Boot == p.run.Boot:
		p.run.Serial = max(p.run.Serial, msg.Run.Serial)
	case is > was && msg.Run.Base >= p.run.Serial:
		p.run = msg.Run
	case is < was:
		m.reject(msg) // or it is a message that was long on its way: then its sender lives no more
		return dropped("%v of an earlier run of %s", msg.Kind, msg.From)
	default:
		m.reject(msg)
		return dropped("%v of %s, whose file is older than what it has said", msg.Kind, msg.From)
	}
	p.heard = m.now
	return nil
}

func (m *Machine) reject(msg *Message) {
	m.send(msg.From, &Message{Kind: KindReject, Reason: ReasonRestored, About: msg.Run.Boot})
}

// silent lists the other voters that were not heard of for a while.
func (m *Machine) silent() []string {
	known := m.listed
	if m.config != nil {
		known = m.config.IDs()
	}
	var list []string
	for _, id := range known {
		p := m.peers[id]
		if id != m.opts.Self && (p == nil || m.now > p.heard+m.patience()) {
			list = append(list, id)
		}
	}
	return list
}

// Phase is what a voter is about.
type Phase uint8

// Phases.
const (
	Enrolling Phase = iota // it waits until all voters have enrolled
	Voting
	Installing // the next configuration is decided, and this voter fetches its contents
	Retired    // it is not in the next configuration
	Refused    // it cannot be a voter: Reason says why
)

var phaseNames = [...]string{"enrolling", "voting", "installing", "retired", "refused"}

// String returns the phase in a word.
func (p Phase) String() string { return phaseNames[p] }

// Status is what a voter can say about itself.
type Status struct {
	Phase    Phase
	Instance uint64
	Listed   []string          // the voters that it was started with when its file was empty
	Config   *Config           // the newest that is known, or nil
	Quiet    Time              // it answers nothing for this long
	Missing  []string          // other voters that were not heard of for a while
	Asking   map[string]uint64 // instances that ask to be voters
	Reason   Reason            // of Refused
	By       string            // who refuses
	Voters   []string          // its voters
	Enrolled bool              // it is enrolled with them
	Foreign  string            // a voter of another domain that sends messages here
	Names    int               // that it keeps; MaxKeys are the most
	Denied   uint64            // requests of clients that have created too many names
	DeniedTo string            // whose the last one was
	Full     uint64            // ballots about names for which it has no room
	FullTo   string            // whose the last one was: a client, or the voter that it has asked
	Crowded  uint64            // questions of its own process while too many were going on
}

// Status returns what the voter can say about itself.
func (m *Machine) Status(now Time) Status {
	s := Status{
		Instance: m.instance, Listed: m.listed, Config: m.newest(), Quiet: max(0, m.quiet-now), Asking: map[string]uint64{}, Foreign: m.foreign,
		Names: len(m.slots), Denied: m.denied.n, DeniedTo: m.denied.to, Full: m.full.n, FullTo: m.full.to, Crowded: m.crowded.n,
	}
	for id, a := range m.enrolled {
		s.Asking[id] = a.instance
	}
	m.now = max(m.now, now)
	s.Missing = m.silent()
	switch {
	case m.refusal != ReasonNone:
		s.Phase, s.Reason, s.By, s.Voters = Refused, m.refusal, m.refuser.From, m.refuser.Voters
		s.Enrolled = m.refuser.Config > 0
	case m.next != nil && !m.listedIn(m.next):
		s.Phase = Retired
	case m.next != nil:
		s.Phase = Installing
	case m.config == nil:
		s.Phase = Enrolling
	default:
		s.Phase = Voting
	}
	return s
}

// listedIn reports whether this voter, with its file, is in a configuration.
func (m *Machine) listedIn(c *Config) bool {
	return c.has(m.opts.Self, m.instance)
}

// Domain returns the domain of the voter, zero if it has none yet.
func (m *Machine) Domain() register.Domain {
	if c := m.newest(); c != nil {
		return c.Domain
	}
	return register.Domain{}
}
