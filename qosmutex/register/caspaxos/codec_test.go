package caspaxos

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"padme/qosmutex/internal/pack"
	"padme/qosmutex/register"
)

// full has every field of its kind set.
func full(k Kind) *Message {
	m := &Message{Kind: k, Domain: register.Domain{1, 2, 3}, Config: 70000, Run: Run{1 << 60, 3<<32 | 9, 4, 5}}
	ballot := Ballot{3, 1 << 40, 2}
	state := State{Value: []byte("root is A"), Stamp: Stamp{300, 1 << 63}, Firm: Stamp{299, 7}, Lease: 5}
	slots := []Slot{{"crane", ballot, state}, {Key: "lift"}}
	config := &Config{register.Domain{9}, 2, []Voter{{"a", 1}, {"b", 2}, {"d", 1 << 63}}, []Voter{{"a", 1}, {"b", 2}, {"c", 3}}}
	switch k {
	case KindEnroll:
		m.Voters = []string{"a", "b", "c"}
	case KindCurrent:
		m.Next = config
	case KindReject:
		m.Reason, m.About, m.Voters = ReasonWiped, 77, []string{"a"}
	case KindPrepare:
		m.Ballot, m.Keys = ballot, []string{"crane", "lift"}
	case KindPromise, KindAccept:
		m.Ballot, m.Slots = ballot, slots
	case KindAccepted:
		m.Ballot = ballot
	case KindRefused:
		m.Ballot, m.Seq, m.Round, m.Large = ballot, 8, 1<<33, true
	case KindRead:
		m.Seq, m.Keys = 8, []string{"crane"}
	case KindValues:
		m.Seq, m.Slots = 8, slots
	case KindFetch:
		m.Next, m.After = config, "crane"
	case KindPage:
		m.Target, m.After, m.More, m.Installed, m.Slots = 2, "crane", true, true, slots
	case KindRequest:
		m.Seq, m.Within, m.Keys = 8, 1e9, []string{"lift"}
		m.Writes = []register.Write{{
			Key: "crane", Old: register.Version{Domain: register.Domain{5}, Counter: 3, Nonce: 4}, Value: []byte("x"), Nonce: 9, Renewal: time.Millisecond,
		}}
	case KindReply:
		m.Seq, m.Large, m.Failed, m.Unknown, m.Missing = 8, true, true, true, []string{"b"}
		m.Outcomes = []Outcome{{true, true, state}, {}}
	case KindInquire:
		m.Seq = 8
	case KindReport:
		m.Seq, m.Text = 8, "{}"
	case KindReplace:
		m.Seq, m.Within, m.Old, m.New = 8, 1e9, "c", "d"
	case KindReplaced:
		m.Seq, m.Failed, m.Missing, m.Text = 8, true, []string{"b"}, "no"
	}
	return m
}

func TestEveryFieldIsReadBack(t *testing.T) {
	for k := KindNone + 1; k < kindEnd; k++ {
		want := full(k)
		got, err := Decode(AppendMessage(nil, want))
		if err != nil {
			t.Errorf("%v: %v", k, err)
		} else if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%v (-sent +received):\n%s", k, d)
		}
		if got := KindOf(AppendMessage(nil, want)); got != k {
			t.Errorf("the kind of %v is %v", k, got)
		}
	}
}

func TestMalformedMessagesAreRefusedByName(t *testing.T) {
	edit := func(k Kind, change func(*Message)) []byte {
		m := full(k)
		change(m)
		return AppendMessage(nil, m)
	}
	for name, c := range map[string]struct {
		want string
		b    []byte
	}{
		"nothing":        {"message: cut short", nil},
		"version 2":      {"version: 2 is not 1: the sender needs a release that speaks it", []byte{0x92, 2, 1}},
		"kind":           {"kind: 99 is above", []byte{0x92, 1, 99}},
		"width":          {"message: has 3 elements, a Hello has 8", []byte{0x93, 1, byte(KindHello), 0}},
		"short domain":   {"domain: has 0 bytes, not 16", append(bytes.Repeat([]byte{0x98}, 1), 1, byte(KindHello), 0xc4, 0, 0, 0, 0, 0, 0)},
		"two voters":     {"configuration: number 2: register: invalid: 2 voters", edit(KindCurrent, func(m *Message) { m.Next.Voters = m.Next.Voters[:2] })},
		"configuration":  {"configuration: number 0", edit(KindCurrent, func(m *Message) { m.Next.Number = 0 })},
		"long key":       {"keys: has 513 bytes", edit(KindRead, func(m *Message) { m.Keys[0] = strings.Repeat("k", 513) })},
		"long value":     {"value: has 65537 bytes", edit(KindValues, func(m *Message) { m.Slots[0].State.Value = make([]byte, 1<<16+1) })},
		"ballot":         {"ballot: 5 is above 4", edit(KindAccepted, func(m *Message) { m.Ballot.Voter = 5 })},
		"many keys":      {"keys: has 1025 elements", edit(KindPrepare, func(m *Message) { m.Keys = make([]string, MaxBatch+1) })},
		"something more": {"message: 1 bytes follow its end", append(AppendMessage(nil, full(KindHello)), 0)},
	} {
		_, err := Decode(c.b)
		if !errors.Is(err, pack.ErrMalformed) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// Whatever a message is cut down to, or claims, it costs no more than it is long.
func TestClaimsAllocateNothing(t *testing.T) {
	huge := []byte{0xdd, 0xff, 0xff, 0xff, 0xff}
	for k := KindNone + 1; k < kindEnd; k++ {
		b := AppendMessage(nil, full(k))
		for cut := range b {
			claim := append(bytes.Clone(b[:cut]), huge...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Decode(claim)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; err == nil || n > 16<<10 {
				t.Fatalf("%v cut at %d: error %v, %d bytes allocated", k, cut, err, n)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for k := KindNone + 1; k < kindEnd; k++ {
		f.Add(AppendMessage(nil, full(k)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again := AppendMessage(nil, m)
		m2, err := Decode(again)
		if err != nil {
			t.Fatalf("accepted %x, but not its own form of it, %x: %v", b, again, err)
		}
		if d := cmp.Diff(m, m2); d != "" {
			t.Fatalf("%x (-first +again):\n%s", b, d)
		}
		if len(again) > len(b) {
			t.Fatalf("%x grew to %x", b, again)
		}
	})
}

// FuzzMachine gives a voter messages of anybody: it must not panic, and keeps what its
// file says.
func FuzzMachine(f *testing.F) {
	for k := KindNone + 1; k < kindEnd; k++ {
		f.Add(AppendMessage(nil, full(k)), true)
		f.Add(AppendMessage(nil, full(k)), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, voter bool) {
		msg, err := Decode(b)
		if err != nil {
			return
		}
		config := &Config{Domain: register.Domain{1}, Number: 1, Voters: []Voter{{"A", 1}, {"B", 2}, {"C", 3}}}
		m := &Machine{opts: Options{Self: "A"}, instance: 1, listed: config.IDs(), config: config, slots: map[string]*slot{}}
		var out Output
		m, err = New(Options{Self: "A", Voters: config.IDs(), Boot: 1 << 32, Resend: 1, Backoff: 1, Quiet: 1}, m.Records(), 0, &out)
		if err != nil {
			t.Fatal(err)
		}
		file := m.Records()
		msg.From = "x"
		if voter { // make the most of it
			msg.From, msg.Domain, msg.Config, msg.Run.Instance = "B", config.Domain, 1, 2
		}
		for now := range Time(5) {
			out = Output{}
			_ = m.Step(10*now, &Input{Kind: Receive, Message: msg}, &out)
			if out.Whole {
				file = nil
			}
			file = append(file, out.Persist...)
			for i := range out.Messages {
				if _, err := Decode(AppendMessage(nil, &out.Messages[i])); err != nil {
					t.Fatalf("%x has it send %+v: %v", b, out.Messages[i], err)
				}
			}
		}
		again, err := New(Options{Self: "A", Voters: config.IDs(), Boot: 2 << 32, Resend: 1, Backoff: 1, Quiet: 1}, file, 0, &out)
		if err != nil {
			t.Fatalf("%x leaves a file that cannot be read: %v", b, err)
		}
		if d := cmp.Diff(m.Records(), again.Records()); d != "" && !lostRenewals(m) {
			t.Fatalf("%x (-in memory +on disk):\n%s", b, d)
		}
	})
}

// lostRenewals reports whether something was accepted that need not be on disk.
func lostRenewals(m *Machine) bool {
	for _, s := range m.slots {
		if s.State.Firm != s.State.Stamp {
			return true
		}
	}
	return false
}
