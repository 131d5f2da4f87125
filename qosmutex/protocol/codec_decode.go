package protocol

import (
	"math"
	"unicode/utf8"

	"padme/qosmutex/internal/pack"
)

// Elements of the arrays of fixed length inside a message.
const (
	nodeWidth      = 2
	formerWidth    = 2
	entryWidth     = 4
	wishWidth      = 6
	settingsWidth  = 9
	tokenWidth     = 8
	scheduledWidth = 7
)

// maxInterned bounds the names that a Decoder remembers: about two megabytes if
// a stranger sends nothing but the longest.
const maxInterned = 4096

// Decoder reads encoded messages. The zero Decoder is ready. It remembers the
// names it has seen, so that in steady state decoding allocates nothing; it is
// not safe for concurrent use.
type Decoder struct {
	r     pack.Reader
	names map[string]string
}

// Decode reads the message that b holds into m, reusing the slices of m. Fields
// that the kind does not carry become zero, slices empty. Nothing in m refers to
// b afterwards. Any error wraps ErrMalformed and names the field; m is then
// unspecified but may be decoded into again. Memory is allocated only for what b
// really contains, whatever lengths it claims.
func (d *Decoder) Decode(b []byte, m *Message) error {
	r := d.read(b)
	*m = Message{
		Path: m.Path[:0], Entries: m.Entries[:0], Tokens: m.Tokens[:0], Sessions: m.Sessions[:0], Wishes: m.Wishes[:0],
		Schedule: m.Schedule[:0],
		Settings: Settings{Resources: m.Settings.Resources[:0]},
	}
	n := r.Array("message", math.MaxInt)
	if n < headerWidth {
		r.Fail("message", "has %d elements, the header alone needs %d", n, headerWidth)
	}
	d.header(m)
	if r.Err() != nil {
		return r.Err()
	}
	if n < widths[m.Kind] {
		r.Fail("message", "has %d elements, a %v needs %d", n, m.Kind, widths[m.Kind])
	}
	extra := n - widths[m.Kind]
	for _, f := range carried[m.Kind] {
		if f.mayLack() {
			if extra <= 0 { // it is empty
				break
			}
			extra--
		}
		d.field(f, m)
	}
	if r.Err() == nil {
		r.Skip("appended fields", extra)
	}
	return r.End("message")
}

// read begins with another buffer.
func (d *Decoder) read(b []byte) *pack.Reader {
	d.r.Malformed = ErrMalformed
	d.r.Reset(b)
	return &d.r
}

func (d *Decoder) header(m *Message) {
	r := &d.r
	if v := r.Uint64("version"); v != Version && r.Err() == nil {
		r.Fail("version", "%d is not %d: the sender needs a release that speaks it", v, Version)
	}
	m.Kind = Kind(r.Uint("kind", math.MaxUint8))
	if !m.Kind.Valid() && r.Err() == nil {
		r.Fail("kind", "%d is unknown", m.Kind)
	}
	m.Flags = Flags(r.Uint("flags", math.MaxUint16))
	if unknown := m.Flags &^ knownFlags; unknown != 0 {
		r.Fail("flags", "unknown bits %#x", uint16(unknown))
	}
	m.From = d.node("from")
	if m.From.IsZero() && r.Err() == nil {
		r.Fail("from", "is empty")
	}
	m.To = d.node("to")
	m.Epoch = d.epoch("epoch")
	m.Link = r.Uint64("link")
	m.Seq = r.Uint64("seq")
	m.Ack = r.Uint64("ack")
	m.Clock = r.Uint64("clock")
}

func (d *Decoder) field(f field, m *Message) {
	r, what := &d.r, fieldNames[f]
	switch f {
	case fieldRoot:
		m.Root = d.node(what)
	case fieldID:
		m.ID = d.requestID(what)
	case fieldPriority:
		m.Priority = r.Int64(what)
	case fieldResource:
		m.Resource = d.name(what)
	case fieldHops:
		m.Hops = uint32(r.Uint(what, math.MaxUint32))
	case fieldHidden:
		m.Hidden = uint32(r.Uint(what, math.MaxUint32))
	case fieldDepth:
		m.Depth = uint32(r.Uint(what, math.MaxUint32))
	case fieldMembers:
		m.Members = uint32(r.Uint(what, math.MaxUint32))
	case fieldGrant:
		m.Grant = d.grant(what)
	case fieldFences:
		m.Fences = Fences{Next: r.Uint64(what), End: r.Uint64(what)}
		if m.Fences.Next > m.Fences.End {
			r.Fail(what, "%d is behind the end %d", m.Fences.Next, m.Fences.End)
		}
	case fieldSession:
		m.Session = r.Uint64(what)
	case fieldSent:
		m.Sent = Time(r.Int64(what))
	case fieldNumber:
		m.Number = r.Uint64(what)
	case fieldTTL:
		m.TTL = Time(r.Uint(what, math.MaxInt64))
	case fieldParent:
		m.Parent = d.node(what)
	case fieldMoveTo:
		m.MoveTo = d.node(what)
	case fieldLeast:
		m.Least = d.node(what)
	case fieldLeastP:
		m.LeastP = r.Int64(what)
	case fieldPassedTo:
		m.PassedTo = d.node(what)
	case fieldReason:
		m.Reason = Reason(r.Uint(what, uint64(reasonEnd-1)))
	case fieldVerdict:
		m.Verdict = Verdict(r.Uint(what, uint64(verdictEnd-1)))
	case fieldSettings:
		d.settings(what, &m.Settings)
	case fieldPath:
		m.Path = d.nodes(what, MaxPath, m.Path)
	case fieldEntries:
		d.entries(what, m)
	case fieldTokens:
		d.tokens(what, m)
	case fieldSessions:
		m.Sessions = d.nodes(what, MaxSessions, m.Sessions)
	case fieldWithin:
		m.Within = Duration(r.Int64(what))
	case fieldHold:
		m.Hold = Duration(r.Int64(what))
	case fieldWishes:
		d.wishes(what, m)
	case fieldAttempt:
		m.Attempt = r.Uint64(what)
	case fieldValid:
		m.Valid = Duration(r.Int64(what))
	case fieldRenewal:
		m.Renewal = Renewal{Counter: r.Uint64(what), Nonce: r.Uint64(what)}
	case fieldRank:
		m.Rank = uint32(r.Uint(what, math.MaxUint32))
	case fieldRegister:
		m.Register = r.Uint64(what)
	case fieldEnded:
		m.Ended = d.node(what)
	case fieldUntil:
		m.Until = Time(r.Int64(what))
	case fieldClient:
		m.Client = d.text(what, MaxClient)
	case fieldSchedule:
		d.schedule(what, m)
	case fieldInherits:
		m.Within = Duration(r.Int64(what))
	case fieldFormer:
		extra := r.AtLeast(what, formerWidth)
		m.Former = Former{Incarnation: r.Uint64(what), Session: r.Uint64(what)}
		r.Skip(what, extra)
	case fieldKept:
		d.tokens(what, m)
	}
}

func (d *Decoder) name(what string) string { return d.text(what, MaxName) }

// text takes a string of at most limit bytes and returns the one copy that the Decoder
// keeps of it.
func (d *Decoder) text(what string, limit int) string {
	b := d.r.Text(what, limit)
	if len(b) == 0 {
		return ""
	}
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if !utf8.Valid(b) {
		d.r.Fail(what, "%q is not UTF-8", b)
		return ""
	}
	// Forgetting everything is cheaper than remembering what was used last, and
	// the names in use are back after a few messages.
	if d.names == nil || len(d.names) >= maxInterned {
		d.names = make(map[string]string)
	}
	s := string(b)
	d.names[s] = s
	return s
}

func (d *Decoder) node(what string) Node {
	return Node{ID: d.name(what), Incarnation: d.r.Uint64(what)}
}

func (d *Decoder) epoch(what string) Epoch {
	return Epoch{Number: d.r.Uint64(what), Tie: d.r.Uint64(what)}
}

func (d *Decoder) requestID(what string) RequestID {
	return RequestID{Node: d.node(what), Clock: d.r.Uint64(what)}
}

func (d *Decoder) grant(what string) Grant {
	return Grant{Epoch: d.epoch(what), Number: d.r.Uint64(what)}
}

func (d *Decoder) models(what string) Models {
	r := &d.r
	last := func(names []string) uint64 { return uint64(len(names) - 1) }
	return Models{
		Priority: Priority(r.Uint(what, last(priorityNames))),
		Request:  RequestModel(r.Uint(what, last(requestNames))),
		Reply:    PassModel(r.Uint(what, last(replyNames))),
		Release:  PassModel(r.Uint(what, last(releaseNames))),
	}
}

func (d *Decoder) settings(what string, s *Settings) {
	r := &d.r
	extra := r.AtLeast(what, settingsWidth)
	s.Version = r.Uint64(what)
	s.Models = d.models(what)
	s.ModelsBy = d.name("models by")
	s.Open = r.Bool(what)
	for range r.Array("resources", MaxResources) {
		s.Resources = append(s.Resources, d.name("resources"))
		if r.Err() != nil {
			return
		}
	}
	s.ResourcesBy = d.name("resources by")
	r.Skip(what, extra)
}

func (d *Decoder) nodes(what string, most int, list []Node) []Node {
	r := &d.r
	for range r.Array(what, most) {
		extra := r.AtLeast(what, nodeWidth)
		list = append(list, d.node(what))
		r.Skip(what, extra)
		if r.Err() != nil {
			break
		}
	}
	return list
}

func (d *Decoder) entries(what string, m *Message) {
	r := &d.r
	for range r.Array(what, MaxEntries) {
		extra := r.AtLeast(what, entryWidth)
		m.Entries = append(m.Entries, Entry{ID: d.requestID(what), Fence: r.Uint64(what)})
		r.Skip(what, extra)
		if r.Err() != nil {
			return
		}
	}
}

func (d *Decoder) tokens(what string, m *Message) {
	r := &d.r
	for range r.Array(what, MaxTokens) {
		extra := r.AtLeast(what, tokenWidth)
		ts := TokenState{Resource: d.name(what), Grant: d.grant(what), Target: d.requestID(what), Fence: r.Uint64(what)}
		if extra > 0 {
			ts.Client = d.text(what, MaxClient)
			extra--
		}
		m.Tokens = append(m.Tokens, ts)
		r.Skip(what, extra)
		if r.Err() != nil {
			return
		}
	}
}

func (d *Decoder) wishes(what string, m *Message) {
	r := &d.r
	for range r.Array(what, MaxWishes) {
		extra := r.AtLeast(what, wishWidth)
		m.Wishes = append(m.Wishes, Wish{
			ID: d.requestID(what), Priority: r.Int64(what), Within: Duration(r.Int64(what)), Hold: Duration(r.Int64(what)),
		})
		r.Skip(what, extra)
		if r.Err() != nil {
			return
		}
	}
}

func (d *Decoder) schedule(what string, m *Message) {
	r := &d.r
	for range r.Array(what, MaxScheduled) {
		extra := r.AtLeast(what, scheduledWidth)
		m.Schedule = append(m.Schedule, Scheduled{
			Number: r.Uint64(what), ID: d.requestID(what), Priority: r.Int64(what), Fence: r.Uint64(what), Session: r.Uint64(what),
		})
		r.Skip(what, extra)
		if r.Err() != nil {
			return
		}
	}
}
