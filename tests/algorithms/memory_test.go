package algorithms_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// full is a message all of whose slices, however deep, have two elements, and whose
// texts and numbers are those that mark has.
func full(kind protocol.Kind, mark byte) protocol.Message {
	var m protocol.Message
	fill(reflect.ValueOf(&m).Elem(), mark)
	m.Kind, m.Flags, m.Reason, m.Verdict = kind, 0, protocol.ReasonNone, protocol.VerdictNone
	m.Settings.Models = protocol.Models{}
	m.From, m.To = protocol.Node{ID: "A", Incarnation: 1}, protocol.Node{ID: "B", Incarnation: 1}
	return m
}

func fill(v reflect.Value, mark byte) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), mark)
		}
	case reflect.Slice:
		if v.Len() == 0 { // else its elements are overwritten where they are
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		}
		for i := range v.Len() {
			fill(v.Index(i), mark+byte(i))
		}
	case reflect.String:
		v.SetString("id" + string(rune(mark)))
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanInt() {
			v.SetInt(int64(mark))
		} else {
			v.SetUint(uint64(mark))
		}
	}
}

// forgetful sends one message, and uses the memory of its slices for something else
// when it is asked for models, while the message is under way.
type forgetful struct {
	sends protocol.Kind
	msg   *protocol.Message
	got   *[]protocol.Message
}

func (m forgetful) Step(_ protocol.Time, in *protocol.Input, out *protocol.Output) error {
	out.Reset()
	switch in.Kind {
	case protocol.Acquire:
		*m.msg = full(m.sends, 'a')
		out.Messages = append(out.Messages, *m.msg)
	case protocol.Change:
		fill(reflect.ValueOf(m.msg).Elem(), 'p')
	case protocol.Receive:
		*m.got = append(*m.got, copied(in.Message))
	}
	return nil
}

func (m forgetful) Status() protocol.Status { return protocol.Status{Role: protocol.Member} }

// A message is what it was when it was sent, also the second and third copy of it
// and also in slots that are used again.
func TestASenderMayUseItsMemoryAgain(t *testing.T) {
	for _, kind := range []protocol.Kind{protocol.KindHandover, protocol.KindRelease, protocol.KindToken, protocol.KindOffer} {
		for _, fast := range []bool{false, true} {
			var got []protocol.Message
			sc := sim.Scenario{
				Participants: []sim.Participant{{ID: "A"}, {ID: "B"}}, Timing: protocol.LAN(), Duration: 60 * second, Fast: fast,
				Network: sim.Network{Latency: sim.Constant(second), Duplicate: 1},
			}
			s, err := sim.New(protocol.Algorithm{Name: "forgetful", New: func(protocol.Config) (protocol.Machine, error) {
				return forgetful{kind, new(protocol.Message), &got}, nil
			}}, sc)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []protocol.Time{1, 2, 30} {
				s.At(at*second, func() { s.Request("A", sim.Request{Resource: resource}) })
				s.At(at*second+second/2, func() { s.SetModels("A", protocol.Models{}) })
			}
			if _, err := s.Run(); err != nil {
				t.Fatal(err)
			}
			want := full(kind, 'a')
			if !fast {
				var d protocol.Decoder
				var read protocol.Message
				if err := d.Decode(protocol.AppendMessage(nil, &want), &read); err != nil {
					t.Fatal(err)
				}
				want = read
			}
			for i := range got {
				if diff := cmp.Diff(want, got[i]); diff != "" {
					t.Errorf("%v, fast=%v, message %d: %s", kind, fast, i, diff)
				}
			}
			if len(got) != 6 {
				t.Errorf("%v, fast=%v: %d messages", kind, fast, len(got))
			}
		}
	}
}
