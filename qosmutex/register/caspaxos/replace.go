package caspaxos

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"maps"
	"math/bits"
	"slices"

	"padme/qosmutex/internal/pack"
	"padme/qosmutex/register"
)

// install is how a voter fetches the contents of a configuration that was decided.
type install struct {
	again   Time
	repeats int
	sources []source
	merged  map[string]Slot
}

// source is a voter from which pages are fetched.
type source struct {
	id        string
	after     string
	began     bool
	done      bool
	installed bool // it votes in the new configuration; else it has sealed the one before
}

// requestReplace begins what an operator at another participant asks for.
func (m *Machine) requestReplace(msg *Message) error {
	id := opID{client: msg.From, seq: msg.Seq}
	if m.find(func(o *op) bool { return o.id == id }) != nil {
		return dropped("the replacement %d of %s came twice", msg.Seq, msg.From)
	}
	m.replace(id, msg.Old, msg.New, m.now+min(max(msg.Within, 1), maxWithin))
	return nil
}

// replace begins an operator's replacement of a voter.
func (m *Machine) replace(id opID, old, by string, until Time) {
	if m.config == nil || m.next != nil {
		m.answerReplace(id, fmt.Errorf("%w: this voter is %v: ask another one, or later", register.ErrUnavailable, m.Status(m.now).Phase))
		return
	}
	instance := m.enrolled[by].instance
	if instance == 0 {
		if len(m.enrolled) >= MaxEnrolled {
			m.named = by
		}
		m.answerReplace(id, fmt.Errorf("%w: voter %q has not asked to be enrolled: start it first, with the voters that there shall be", register.ErrInvalid, by))
		return
	}
	next, err := m.config.replaced(old, Voter{by, instance})
	if err != nil {
		m.answerReplace(id, err)
		return
	}
	value := appendConfig(nil, next)
	m.begin(&op{
		id: id, until: until, writes: []register.Write{{Key: configKey, Value: value, Nonce: fingerprint(value)}},
	})
}

// fingerprint is a nonce that is the same for the same configuration only: a
// voter that proposes what was decided has succeeded.
func fingerprint(value []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(value)
	return h.Sum64() | 1 // not 0
}

// decided knows what has come of an op about the next configuration.
func (m *Machine) decided(o *op) {
	state := o.items[0].outcome.State
	if o.items[0].write {
		state = o.items[0].next
	}
	next := readConfig(pack.NewReader(state.Value)) // voters accept no other
	m.replaced(o.id, next, o.items[0].outcome.Conflict)
	config := m.config
	_ = m.learn(next)
	for _, v := range slices.Concat(config.Voters, next.Voters) {
		m.send(v.ID, &Message{Kind: KindCurrent, Next: next})
	}
}

// trusts reports whether a participant may say which configuration was decided: a voter of
// one that is known, or, as long as none is, of the list. From anybody else the word would
// be enough to retire all voters for good.
func (m *Machine) trusts(id string) bool {
	if m.config == nil && m.next == nil {
		return slices.Contains(m.listed, id)
	}
	return m.config != nil && m.config.index(id) >= 0 || m.next != nil && m.next.index(id) >= 0
}

// learn takes a configuration that was decided.
func (m *Machine) learn(c *Config) error {
	known := m.newest()
	switch {
	case c == nil || known != nil && c.Domain != known.Domain:
		return dropped("a configuration of another domain")
	case known != nil && c.Number <= known.Number:
		return nil
	case known == nil && !m.listedIn(c):
		if c.index(m.opts.Self) >= 0 {
			m.refusal, m.refuser = ReasonWiped, Message{Voters: c.IDs()}
		}
		return nil
	case c.Number == 1:
		m.adopt(c)
		return nil
	}
	m.next, m.refusal = c, ReasonNone
	m.persist(configRecord(recordNext, c))
	m.resume()
	return nil
}

// resume goes on with whatever the configuration asks for.
func (m *Machine) resume() {
	m.install = nil
	switch {
	case m.next != nil && m.listedIn(m.next):
		m.beginInstall()
	case m.next == nil && m.config != nil:
		for _, o := range slices.Clone(m.ops) {
			if slices.Contains(m.ops, o) {
				m.attempt(o)
			}
		}
	}
}

func (m *Machine) beginInstall() {
	in := &install{merged: map[string]Slot{}}
	for _, v := range slices.Concat(m.next.Prev, m.next.Voters) {
		known := slices.ContainsFunc(in.sources, func(s source) bool { return s.id == v.ID })
		if v.ID != m.opts.Self && !known {
			in.sources = append(in.sources, source{id: v.ID})
		}
	}
	m.install = in
	m.fetch()
}

// fetch asks all sources for their next page.
func (m *Machine) fetch() {
	in := m.install
	in.again = m.later(in.repeats)
	in.repeats++
	for i := range in.sources {
		m.fetchFrom(&in.sources[i])
	}
	own := slices.ContainsFunc(in.sources, func(s source) bool { return s.id == m.opts.Self })
	if !own && m.config != nil && m.config.Number+1 == m.next.Number && m.now >= m.quiet {
		for _, s := range m.slots {
			in.merge(&s.Slot)
		}
		in.sources = append(in.sources, source{id: m.opts.Self, done: true})
	}
	m.installed()
}

// fetchFrom asks a source for the page that comes next. One that has told all it had
// sealed is asked again from the start: it may vote by now, and then it is enough.
func (m *Machine) fetchFrom(s *source) {
	if !s.done || !s.installed {
		m.send(s.id, &Message{Kind: KindFetch, Next: m.next, After: s.wanted()})
	}
}

// wanted returns the key after which the next page begins.
func (s *source) wanted() string {
	if s.done {
		return ""
	}
	return s.after
}

// maxPage bounds the values on one page.
const maxPage = MaxBytes

// fetched answers a voter that installs a configuration.
func (m *Machine) fetched(msg *Message) error {
	if msg.Next == nil || m.config == nil {
		return dropped("Fetch of %s", msg.From)
	}
	trusted := m.trusts(msg.From)
	if trusted {
		if err := m.learn(msg.Next); err != nil {
			return err
		}
	} else if msg.Next.Domain != m.newest().Domain || msg.Next.Number > m.newest().Number {
		return dropped("Fetch of %s, which is no voter that this one knows", msg.From)
	}
	installed := m.config.Number == msg.Next.Number
	switch {
	case m.newest().Number > msg.Next.Number:
		m.send(msg.From, &Message{Kind: KindCurrent, Next: m.newest()})
		return nil
	case !trusted: // it has nothing to install, and a page costs a thousand times the question
		return dropped("Fetch of %s, which is no voter", msg.From)
	case m.now < m.quiet:
		return dropped("Fetch of %s, but this voter has restarted and may have forgotten renewals", msg.From)
	case !installed && m.config.Number+1 != msg.Next.Number:
		return dropped("Fetch of %s for configuration %d", msg.From, msg.Next.Number)
	}
	page := Message{Kind: KindPage, Target: msg.Next.Number, After: msg.After, Installed: installed}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(m.slots)) {
		s := m.slots[key]
		if key == configKey || key <= msg.After || s.Accepted.IsZero() {
			continue
		}
		if size += len(key) + len(s.State.Value); size > maxPage && len(page.Slots) > 0 || len(page.Slots) == MaxBatch {
			page.More = true
			break
		}
		page.Slots = append(page.Slots, s.Slot)
	}
	m.send(msg.From, &page)
	return nil
}

// page takes a page.
func (m *Machine) page(msg *Message) error {
	if m.install == nil || msg.Target != m.next.Number {
		return dropped("Page of %s is for nothing that is going on", msg.From)
	}
	i := slices.IndexFunc(m.install.sources, func(s source) bool { return s.id == msg.From })
	if i < 0 || m.install.sources[i].wanted() != msg.After {
		return dropped("Page of %s after %q", msg.From, msg.After)
	}
	s := &m.install.sources[i]
	switch {
	case s.done && !msg.Installed:
		return nil // it has told that already
	case s.began && !s.installed && msg.Installed:
		*s = source{id: s.id} // it votes by now: from the start
		if msg.After != "" {
			m.fetchFrom(s)
			return nil
		}
	case s.installed && !msg.Installed:
		return dropped("Page of %s is of the time before it voted", msg.From)
	}
	s.began, s.installed, m.install.repeats = true, msg.Installed, 0
	for j := range msg.Slots {
		m.install.merge(&msg.Slots[j])
		s.after = max(s.after, msg.Slots[j].Key)
	}
	s.done = !msg.More || len(msg.Slots) == 0
	if !s.done {
		m.fetchFrom(s)
	}
	m.installed()
	return nil
}

// merge keeps the highest accepted state of a key.
func (in *install) merge(s *Slot) {
	if s.Key != configKey && s.Accepted.Compare(in.merged[s.Key].Accepted) > 0 {
		in.merged[s.Key] = *s
	}
}

// installed begins to vote once a majority of sealed voters has told all it has, or one
// that votes already.
func (m *Machine) installed() {
	var sealed uint8
	enough := false
	for _, s := range m.install.sources {
		if !s.done {
			continue
		}
		enough = enough || s.installed
		if i := slices.IndexFunc(m.next.Prev, func(v Voter) bool { return v.ID == s.id }); i >= 0 && !s.installed {
			sealed |= 1 << i
		}
	}
	if !enough && bits.OnesCount8(sealed) < len(m.next.Prev)/2+1 {
		return
	}
	m.slots = map[string]*slot{}
	for key, s := range m.install.merged {
		m.slots[key] = &slot{Slot: s, onDisk: s.State.Firm, promised: s.Accepted}
	}
	m.config, m.next, m.refusal, m.install = m.next, nil, ReasonNone, nil
	clear(m.enrolled)
	clear(m.peers)
	m.out.Persist, m.out.Whole = m.Records(), true
	m.settle()
	m.resume()
}

// settle answers what is over with the configuration before: what it was to become is
// decided, and must not be proposed for what this one is to become.
func (m *Machine) settle() {
	for _, o := range slices.Clone(m.ops) {
		if o.keys[0] != configKey {
			continue
		}
		m.remove(o)
		m.replaced(o.id, m.config, !bytes.Equal(o.writes[0].Value, appendConfig(nil, m.config)))
	}
}

// replaced tells who asked for a replacement that c is current now.
func (m *Machine) replaced(id opID, c *Config, conflict bool) {
	var err error
	if conflict {
		err = fmt.Errorf("%w: another replacement came first: the voters are now %v", register.ErrConflict, c.IDs())
	}
	m.answerReplace(id, err)
}

func (m *Machine) answerReplace(id opID, err error) {
	if id.client == "" {
		m.out.Answers = append(m.out.Answers, Answer{Seq: id.seq, Err: err})
		return
	}
	reply := Message{Kind: KindReplaced, Seq: id.seq}
	if err != nil {
		reply.Text = err.Error()
	}
	m.send(id.client, &reply)
}
