package protocol

import (
	"math"
	"unicode/utf8"
)

// Elements of the arrays of fixed length inside a message.
const (
	nodeWidth     = 2
	entryWidth    = 4
	wishWidth     = 6
	settingsWidth = 9
	tokenWidth    = 8
)

// maxInterned bounds the names that a Decoder remembers: about two megabytes if
// a stranger sends nothing but the longest.
const maxInterned = 4096

// Decoder reads encoded messages. The zero Decoder is ready. It remembers the
// names it has seen, so that in steady state decoding allocates nothing; it is
// not safe for concurrent use.
type Decoder struct {
	r     reader
	names map[string]string
}

// Decode reads the message that b holds into m, reusing the slices of m. Fields
// that the kind does not carry become zero, slices empty. Nothing in m refers to
// b afterwards. Any error wraps ErrMalformed and names the field; m is then
// unspecified but may be decoded into again. Memory is allocated only for what b
// really contains, whatever lengths it claims.
func (d *Decoder) Decode(b []byte, m *Message) error {
	d.r = reader{b: b}
	r := &d.r
	*m = Message{
		Path: m.Path[:0], Entries: m.Entries[:0], Tokens: m.Tokens[:0], Sessions: m.Sessions[:0], Wishes: m.Wishes[:0],
		Settings: Settings{Resources: m.Settings.Resources[:0]},
	}
	n := r.array("message", math.MaxInt)
	if n < headerWidth {
		r.fail("message", "has %d elements, the header alone needs %d", n, headerWidth)
	}
	d.header(m)
	if r.err != nil {
		return r.err
	}
	if n < widths[m.Kind] {
		r.fail("message", "has %d elements, a %v needs %d", n, m.Kind, widths[m.Kind])
	}
	extra := n - widths[m.Kind]
	for _, f := range carried[m.Kind] {
		if f == fieldClient {
			if extra <= 0 { // it names nobody
				break
			}
			extra--
		}
		d.field(f, m)
	}
	if r.err == nil {
		r.skip("appended fields", extra)
	}
	if r.err == nil && len(r.b) != 0 {
		r.fail("message", "%d bytes follow its end", len(r.b))
	}
	r.b = nil
	return r.err
}

func (d *Decoder) header(m *Message) {
	r := &d.r
	if v := r.uint64("version"); v != Version && r.err == nil {
		r.fail("version", "%d is not %d: the sender needs a release that speaks it", v, Version)
	}
	m.Kind = Kind(r.uint("kind", math.MaxUint8))
	if !m.Kind.Valid() && r.err == nil {
		r.fail("kind", "%d is unknown", m.Kind)
	}
	m.Flags = Flags(r.uint("flags", math.MaxUint16))
	if unknown := m.Flags &^ knownFlags; unknown != 0 {
		r.fail("flags", "unknown bits %#x", uint16(unknown))
	}
	m.From = d.node("from")
	if m.From.IsZero() && r.err == nil {
		r.fail("from", "is empty")
	}
	m.To = d.node("to")
	m.Epoch = d.epoch("epoch")
	m.Link = r.uint64("link")
	m.Seq = r.uint64("seq")
	m.Ack = r.uint64("ack")
	m.Clock = r.uint64("clock")
}

func (d *Decoder) field(f field, m *Message) {
	r, what := &d.r, fieldNames[f]
	switch f {
	case fieldRoot:
		m.Root = d.node(what)
	case fieldID:
		m.ID = d.requestID(what)
	case fieldPriority:
		m.Priority = r.int64(what)
	case fieldResource:
		m.Resource = d.name(what)
	case fieldHops:
		m.Hops = uint32(r.uint(what, math.MaxUint32))
	case fieldHidden:
		m.Hidden = uint32(r.uint(what, math.MaxUint32))
	case fieldDepth:
		m.Depth = uint32(r.uint(what, math.MaxUint32))
	case fieldMembers:
		m.Members = uint32(r.uint(what, math.MaxUint32))
	case fieldGrant:
		m.Grant = d.grant(what)
	case fieldFences:
		m.Fences = Fences{Next: r.uint64(what), End: r.uint64(what)}
		if m.Fences.Next > m.Fences.End {
			r.fail(what, "%d is behind the end %d", m.Fences.Next, m.Fences.End)
		}
	case fieldSession:
		m.Session = r.uint64(what)
	case fieldSent:
		m.Sent = Time(r.int64(what))
	case fieldNumber:
		m.Number = r.uint64(what)
	case fieldTTL:
		m.TTL = Time(r.uint(what, math.MaxInt64))
	case fieldParent:
		m.Parent = d.node(what)
	case fieldMoveTo:
		m.MoveTo = d.node(what)
	case fieldLeast:
		m.Least = d.node(what)
	case fieldLeastP:
		m.LeastP = r.int64(what)
	case fieldPassedTo:
		m.PassedTo = d.node(what)
	case fieldReason:
		m.Reason = Reason(r.uint(what, uint64(reasonEnd-1)))
	case fieldVerdict:
		m.Verdict = Verdict(r.uint(what, uint64(verdictEnd-1)))
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
		m.Within = Duration(r.int64(what))
	case fieldHold:
		m.Hold = Duration(r.int64(what))
	case fieldWishes:
		d.wishes(what, m)
	case fieldAttempt:
		m.Attempt = r.uint64(what)
	case fieldValid:
		m.Valid = Duration(r.int64(what))
	case fieldRenewal:
		m.Renewal = Renewal{Counter: r.uint64(what), Nonce: r.uint64(what)}
	case fieldRank:
		m.Rank = uint32(r.uint(what, math.MaxUint32))
	case fieldRegister:
		m.Register = r.uint64(what)
	case fieldEnded:
		m.Ended = d.node(what)
	case fieldUntil:
		m.Until = Time(r.int64(what))
	case fieldClient:
		m.Client = d.text(what, MaxClient)
	}
}

func (d *Decoder) name(what string) string { return d.text(what, MaxName) }

// text takes a string of at most limit bytes and returns the one copy that the Decoder
// keeps of it.
func (d *Decoder) text(what string, limit int) string {
	b := d.r.bytes(what, limit)
	if len(b) == 0 {
		return ""
	}
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if !utf8.Valid(b) {
		d.r.fail(what, "%q is not UTF-8", b)
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
	return Node{ID: d.name(what), Incarnation: d.r.uint64(what)}
}

func (d *Decoder) epoch(what string) Epoch {
	return Epoch{Number: d.r.uint64(what), Tie: d.r.uint64(what)}
}

func (d *Decoder) requestID(what string) RequestID {
	return RequestID{Node: d.node(what), Clock: d.r.uint64(what)}
}

func (d *Decoder) grant(what string) Grant {
	return Grant{Epoch: d.epoch(what), Number: d.r.uint64(what)}
}

func (d *Decoder) models(what string) Models {
	r := &d.r
	return Models{
		Priority: Priority(r.uint(what, uint64(Deadline))),
		Request:  RequestModel(r.uint(what, uint64(RequestReplace))),
		Reply:    PassModel(r.uint(what, uint64(Use))),
		Release:  PassModel(r.uint(what, uint64(Use))),
	}
}

func (d *Decoder) settings(what string, s *Settings) {
	r := &d.r
	extra := r.tuple(what, settingsWidth)
	s.Version = r.uint64(what)
	s.Models = d.models(what)
	s.ModelsBy = d.name("models by")
	s.Open = r.bool(what)
	for range r.array("resources", MaxResources) {
		s.Resources = append(s.Resources, d.name("resources"))
		if r.err != nil {
			return
		}
	}
	s.ResourcesBy = d.name("resources by")
	r.skip(what, extra)
}

func (d *Decoder) nodes(what string, most int, list []Node) []Node {
	r := &d.r
	for range r.array(what, most) {
		extra := r.tuple(what, nodeWidth)
		list = append(list, d.node(what))
		r.skip(what, extra)
		if r.err != nil {
			break
		}
	}
	return list
}

func (d *Decoder) entries(what string, m *Message) {
	r := &d.r
	for range r.array(what, MaxEntries) {
		extra := r.tuple(what, entryWidth)
		m.Entries = append(m.Entries, Entry{ID: d.requestID(what), Fence: r.uint64(what)})
		r.skip(what, extra)
		if r.err != nil {
			return
		}
	}
}

func (d *Decoder) tokens(what string, m *Message) {
	r := &d.r
	for range r.array(what, MaxTokens) {
		extra := r.tuple(what, tokenWidth)
		ts := TokenState{Resource: d.name(what), Grant: d.grant(what), Target: d.requestID(what), Fence: r.uint64(what)}
		if extra > 0 {
			ts.Client = d.text(what, MaxClient)
			extra--
		}
		m.Tokens = append(m.Tokens, ts)
		r.skip(what, extra)
		if r.err != nil {
			return
		}
	}
}

func (d *Decoder) wishes(what string, m *Message) {
	r := &d.r
	for range r.array(what, MaxWishes) {
		extra := r.tuple(what, wishWidth)
		m.Wishes = append(m.Wishes, Wish{
			ID: d.requestID(what), Priority: r.int64(what), Within: Duration(r.int64(what)), Hold: Duration(r.int64(what)),
		})
		r.skip(what, extra)
		if r.err != nil {
			return
		}
	}
}
