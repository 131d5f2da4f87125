package classic

import (
	"errors"
	"math"
	"slices"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// forge is a message about the request ⟨who,clock⟩ that only its sender made up.
func forge(kind protocol.Kind, who string, clock uint64, change ...func(*protocol.Message)) protocol.Message {
	m := protocol.Message{Kind: kind, Resource: crane, ID: protocol.RequestID{Node: protocol.Node{ID: who}, Clock: clock}, Clock: 900}
	for _, f := range change {
		f(&m)
	}
	return m
}

func fences(next, end uint64) func(*protocol.Message) {
	return func(m *protocol.Message) { m.Fences = protocol.Fences{Next: next, End: end} }
}

func hop(number uint64, idle uint32) func(*protocol.Message) {
	return func(m *protocol.Message) { m.Number, m.Hops = number, idle }
}

func favors(names ...string) func(*protocol.Message) {
	return func(m *protocol.Message) {
		for _, id := range names {
			m.Path = append(m.Path, protocol.Node{ID: id})
		}
	}
}

// served is a token of Suzuki and Kasami's.
func served(wishes ...protocol.Wish) func(*protocol.Message) {
	return func(m *protocol.Message) { m.Wishes = wishes }
}

func wish(who string, clock uint64, place int64) protocol.Wish {
	return protocol.Wish{ID: protocol.RequestID{Node: protocol.Node{ID: who}, Clock: clock}, Priority: place}
}

// latest stands for the clock of the participant's request that waits or is inside.
const latest = 777

func (w *world) latest(id string) uint64 {
	r := w.nodes[slices.Index(w.names, id)].m.Status().Resources[0]
	if r.Inside {
		return r.Target.Clock
	}
	return r.Queue[0].ID.Clock
}

// What a participant must refuse, of four: A, B, C and D. Before it, those of asked
// have asked (B) and left (b), one after another, with all messages delivered.
func TestRefusals(t *testing.T) {
	const (
		request, reply, release = protocol.KindRequest, protocol.KindReply, protocol.KindRelease
		token, ack, withdraw    = protocol.KindToken, protocol.KindAck, protocol.KindWithdraw
		failed, inquire, yield  = protocol.KindFailed, protocol.KindInquire, protocol.KindYield
	)
	type refusal struct {
		asked    string
		from, to string
		m        protocol.Message
		want     error
	}
	common := []refusal{
		{"", "B", "A", forge(protocol.KindBeacon, "B", 1), nil},
		{"", "B", "A", forge(protocol.KindNone, "B", 1), nil},
		{"", "B", "A", forge(request, "", 1), errOrigin},
		{"", "B", "A", forge(request, "X", 1), errOrigin},
		{"", "B", "A", forge(request, "B", 0), errOrigin},
		{"", "B", "A", forge(request, "B", math.MaxUint64), nil},
		{"", "X", "A", forge(request, "X", 1), nil},
		{"", "", "A", forge(request, "", 1), nil},
		{"", "A", "A", forge(request, "A", 1), nil},
		{"", "B", "A", forge(request, "B", 1, func(m *protocol.Message) { m.Resource = "" }), nil},
	}
	tables := map[string][]refusal{
		"central": {
			{"", "B", "A", forge(request, "C", 5), errOrigin},
			{"AB", "B", "A", forge(request, "B", 800), errAsked},
			{"B", "B", "A", forge(request, "B", 800), errAsked},
			{"Bb", "B", "A", forge(request, "B", 1), errRepeat},
			{"B", "C", "A", forge(release, "C", 5), errNobody},
			{"AB", "B", "A", forge(release, "B", latest), errNobody},
			{"AB", "B", "A", forge(withdraw, "B", 7), errNobody},
			{"AB", "C", "A", forge(withdraw, "B", 1), errOrigin},
			{"", "B", "A", forge(reply, "A", 1), errOrigin},
			{"", "B", "A", forge(reply, "B", 1), errKind},
			{"AB", "C", "B", forge(reply, "B", latest, fences(900, 900)), errSender},
			{"AB", "A", "B", forge(reply, "B", 2, fences(900, 900)), errNobody},
			{"AB", "A", "B", forge(reply, "B", latest), errNobody}, // without a fence
			{"AB", "A", "B", forge(reply, "B", latest, fences(1<<63, 1<<63)), errFence},
			{"AB", "A", "B", forge(reply, "B", latest, fences(5, 9)), errFence},
			{"AB", "A", "B", forge(reply, "C", 1, fences(900, 900)), errOrigin},
			{"AB", "A", "B", forge(request, "A", 1), errKind},
		},
		"token-ring": {
			{"", "B", "C", forge(request, "B", 1), errSender},
			{"", "C", "B", forge(token, "", 0, hop(1, 0)), errSender},
			{"A", "D", "A", forge(token, "", 0, hop(4, 0)), errTwice},
			{"A", "A", "B", forge(token, "", 0, hop(0, 0)), errHops},
			{"A", "A", "B", forge(token, "", 0, hop(5, 0)), errHops},
			{"A", "A", "B", forge(token, "", 0, hop(1, 5)), errHops},
			{"A", "A", "B", forge(token, "", 0, hop(1, math.MaxUint32)), errHops},
			{"A", "A", "B", forge(token, "", 0, hop(1, 1), fences(1, 2)), errFence},
		},
		"lamport": {
			{"B", "B", "A", forge(request, "B", 800), errAsked},
			{"", "B", "A", forge(request, "B", 950), errClock}, // later than its message
			{"B", "C", "A", forge(release, "C", 5), errNobody},
			{"B", "C", "A", forge(release, "B", 1), errOrigin},
			{"B", "B", "A", forge(release, "B", 2), errNobody},
			{"B", "C", "A", forge(ack, "A", 1), errNobody},
			{"A", "B", "A", forge(ack, "A", latest), errNobody}, // once more
			{"A", "B", "A", forge(ack, "C", 1), errOrigin},
			{"AB", "B", "A", forge(release, "B", latest, func(m *protocol.Message) { m.Clock = 1 }), errClock},
			{"A", "B", "C", forge(request, "B", 800, fences(7, 6)), errFence},
		},
		"ricart-agrawala": {
			{"AB", "B", "A", forge(request, "B", 800), errAsked},
			{"B", "B", "A", forge(request, "B", latest), errRepeat},
			{"", "B", "A", forge(reply, "A", 1), errNobody},
			{"A", "B", "A", forge(reply, "A", latest), errNobody}, // once more
			{"AB", "A", "B", forge(reply, "C", 1), errOrigin},
			{"AB", "A", "B", forge(reply, "B", 1), errNobody}, // an older request
			{"AB", "A", "B", forge(reply, "B", latest, fences(1<<63, 1<<63)), errFence},
		},
		"maekawa": {
			{"", "D", "A", forge(request, "D", 1), errSender}, // not in its set
			{"A", "B", "A", forge(release, "B", 1), errNobody},
			{"A", "B", "A", forge(yield, "B", 1), errNobody},
			{"B", "B", "A", forge(yield, "B", latest), errNobody}, // nobody inquired
			{"B", "B", "A", forge(request, "B", 800), errAsked},
			{"AB", "B", "A", forge(request, "B", 800), errAsked},
			{"Bb", "B", "A", forge(request, "B", 1), errRepeat},
			{"B", "A", "B", forge(reply, "B", latest), errNobody}, // inside already
			{"AB", "A", "B", forge(reply, "C", 1), errOrigin},
			{"AB", "D", "B", forge(reply, "B", latest), errTwice},
			{"AB", "A", "B", forge(failed, "B", latest), errBallot},
			{"AB", "A", "B", forge(inquire, "B", latest), errBallot},
			{"A", "B", "A", forge(inquire, "A", 7), errNobody},
			{"AB", "A", "B", forge(reply, "B", latest, fences(2, 1)), errFence},
		},
		"maekawa-naive": {
			{"AB", "A", "B", forge(inquire, "B", 3), errKind},
			{"AB", "A", "B", forge(failed, "B", 3), errKind},
			{"AB", "A", "B", forge(yield, "A", 1), errKind},
		},
		"voting": {
			{"B", "B", "A", forge(request, "B", 800), errAsked},
			{"Bb", "B", "A", forge(request, "B", 1), errRepeat},
			{"AC", "B", "A", forge(release, "B", 1), errNobody},
			{"A", "B", "A", forge(reply, "A", latest, favors("A")), errTwice},
			{"A", "B", "A", forge(reply, "A", 1), errBallot},
			{"A", "B", "A", forge(reply, "A", 1, favors("X")), errBallot},
			{"A", "B", "A", forge(reply, "A", 1, favors("A", "B")), errBallot},
			{"A", "B", "A", forge(reply, "A", 2, favors("A")), errNobody},
			{"A", "B", "A", forge(reply, "B", 1, favors("A")), errOrigin},
			{"A", "B", "A", forge(reply, "A", 1, favors("A"), fences(1<<63, 1<<63)), errFence},
		},
		"suzuki-kasami": {
			{"B", "B", "A", forge(request, "B", latest), errRepeat},
			{"B", "C", "A", forge(request, "B", 800), errOrigin},
			{"A", "B", "A", forge(token, "", 0), errTwice},
			{"A", "A", "B", forge(token, "", 0), errNobody},
			{"AB", "A", "B", forge(token, "", 0, fences(1, 2)), errFence},
			{"AB", "A", "B", forge(token, "", 0, served(wish("X", 1, 0))), errWishes},
			{"AB", "A", "B", forge(token, "", 0, served(wish("", 1, 0))), errWishes},
			{"AB", "A", "B", forge(token, "", 0, served(wish("C", 1, 0), wish("C", 1, 0))), errWishes},
			{"AB", "A", "B", forge(token, "", 0, served(wish("C", 1, -1))), errWishes},
			{"AB", "A", "B", forge(token, "", 0, served(wish("C", 1, math.MaxInt64))), errWishes},
			{"AB", "A", "B", forge(token, "", 0, served(wish("C", 1, 1), wish("D", 1, 1))), errWishes},
			{"AB", "A", "B", forge(token, "", 0, served(wish("C", 1, 2))), errWishes},
			{"AB", "A", "B", forge(token, "", 0, served(wish("B", 0, 1))), errWishes},
			{"AB", "A", "B", forge(token, "", 0, served(wish("B", 700, 0))), errWishes},
		},
		"naimi-trehel": {
			{"AB", "B", "A", forge(request, "B", latest), errRepeat},
			{"", "B", "A", forge(request, "A", 1), errOrigin},
			{"A", "B", "A", forge(token, "A", latest), errTwice},
			{"", "A", "B", forge(token, "B", 1), errNobody},
			{"AB", "A", "B", forge(token, "B", 9), errNobody},
			{"AB", "A", "B", forge(token, "C", 1), errOrigin},
			{"AB", "A", "B", forge(token, "B", latest, fences(1, 2)), errFence},
		},
	}
	for _, a := range All() {
		for _, r := range slices.Concat(common, tables[a.Name]) {
			w := newWorld(a, letters(4), 1)
			for _, id := range r.asked {
				if id >= 'a' {
					w.leave(int(id - 'a'))
				} else {
					w.ask(int(id - 'A'))
				}
				w.settle()
			}
			if w.failure != nil {
				t.Fatal(w.failure)
			}
			m := r.m
			m.From, m.To = protocol.Node{ID: r.from, Incarnation: 1}, protocol.Node{ID: r.to}
			if m.ID.Clock == latest {
				m.ID.Clock = w.latest(m.ID.Node.ID)
			}
			to := w.nodes[slices.Index(w.names, r.to)]
			err := to.m.Step(w.now, &protocol.Input{Kind: protocol.Receive, Message: &m}, &w.out)
			if !errors.Is(err, static.ErrInvalid) || r.want != nil && !errors.Is(err, r.want) {
				t.Errorf("%s: asked %q, then %s: %v, want %v", a.Name, r.asked, describe(&m), err, r.want)
			}
			if len(w.out.Messages)+len(w.out.Grants)+len(w.out.Denials) > 0 {
				t.Errorf("%s: asked %q, then %s: something follows", a.Name, r.asked, describe(&m))
			}
		}
	}
}

// Who is inside replies to nobody, not even to a request that claims to be older.
func TestRicartAgrawalaInsideRepliesToNobody(t *testing.T) {
	w := newWorld(RicartAgrawala, letters(2), 1)
	for range 2 {
		w.ask(0)
		w.serve(0)
	}
	w.ask(0)
	w.settle()
	m := forge(protocol.KindRequest, "B", 1)
	m.From, m.To = protocol.Node{ID: "B"}, protocol.Node{ID: "A"}
	before := w.counted
	w.step(0, protocol.Input{Kind: protocol.Receive, Message: &m})
	if w.counted != before || w.failure != nil {
		t.Errorf("%d messages follow (%v)", w.counted-before, w.failure)
	}
}
