package sim

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// What is on its way when the network splits arrives; what is sent afterwards does
// not, until it heals. Those whom no group names are together.
func TestAPartitionLosesWhatIsSentAcross(t *testing.T) {
	got, r, err := manual(t, nil, func(s *Sim) {
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane", Hold: second}) })
		s.At(5500*protocol.Millisecond, func() { s.Partition([]string{"A"}) })
		s.At(7*second, func() { s.Request("B", Request{Resource: "lift", Hold: second}) })
		s.At(9500*protocol.Millisecond, func() { s.Partition([]string{"A"}, []string{"S", "B"}) })
		s.At(10*second, func() { s.Heal() })
		s.At(11*second, func() { s.Request("A", Request{Resource: "tug", Hold: second}) })
	})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, got[2:9],
		"5.500s network is split: A",
		"6.000s S←A Request ⟨A,p0,c1⟩ crane",
		"6.000s S→A Reply ⟨A,c1⟩ crane fence 1",
		"6.000s S→A Reply ⟨A,c1⟩ crane fence 1 lost",
		"7.000s B requests lift p1",
		"7.000s B→S Request ⟨B,p1,c1⟩ lift",
		"8.000s S←B Request ⟨B,p1,c1⟩ lift",
	)
	if all := strings.Join(got, "\n"); !strings.Contains(all, "9.500s network is split: A | S B\n10.000s network is whole\n") {
		t.Errorf("got\n%s", all)
	}
	if r.Entries != 2 || r.LostMessages != 1 {
		t.Errorf("%d entries, %d lost", r.Entries, r.LostMessages)
	}
}

func TestASeveredLinkLosesOneWay(t *testing.T) {
	got, r, err := manual(t, nil, func(s *Sim) {
		s.At(5*second, func() { s.Sever([]string{"S"}, []string{"A"}) })
		s.At(5*second, func() { s.Request("A", Request{Resource: "crane"}) })
		s.At(5*second, func() { s.Request("B", Request{Resource: "lift"}) })
		s.At(10*second, func() { s.Heal() })
		s.At(10*second, func() { s.Request("A", Request{Resource: "tug"}) })
	})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, got[:1], "5.000s network is severed: S → A")
	if !slices.Contains(got, "6.000s S←A Request ⟨A,p0,c1⟩ crane") {
		t.Error("nothing gets through the other way")
	}
	if r.AtNode("A") != 1 || r.AtNode("B") != 1 || r.LostMessages != 1 {
		t.Errorf("%d and %d entries, %d lost", r.AtNode("A"), r.AtNode("B"), r.LostMessages)
	}
}

func TestPartitionsThatCannotBe(t *testing.T) {
	for want, script := range map[string]func(*Sim){
		`"Z" is put into a group at 5.000s, but does not`:  func(s *Sim) { s.Partition([]string{"A", "Z"}) },
		`"A" is in two groups`:                             func(s *Sim) { s.Partition([]string{"A"}, []string{"B", "A"}) },
		`"Z" is severed at 5.000s, but does not take part`: func(s *Sim) { s.Sever([]string{"A"}, []string{"Z"}) },
	} {
		_, _, err := manual(t, nil, func(s *Sim) { s.At(5*second, func() { script(s) }) })
		if !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
