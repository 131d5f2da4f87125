package sim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// A visitor comes in an empty place, under a new name, and acts when its request is
// over. What is sent to whoever had the place before is lost.
func TestAVisitorTakesAPlace(t *testing.T) {
	var configured []string
	got, r, err := manual(t, func(sc *Scenario) {
		sc.Participants[2].Absent = true
		sc.Configure = func(c *protocol.Config) { configured = append(configured, c.Self.ID) }
	}, func(s *Sim) {
		s.At(5*second, func() {
			s.Replace("B", "v1", 1)
			s.Request("v1", Request{Resource: "crane", Hold: second, Done: func() { s.Crash("v1") }})
		})
		s.At(9*second, func() {
			s.Replace("v1", "v2", 1)
			if s.Node("v2") != (protocol.Node{ID: "v2", Incarnation: 9001}) {
				t.Errorf("%v came", s.Node("v2"))
			}
			s.Request("v2", Request{Resource: "lift", Hold: second})
		})
		s.At(10*second, func() { s.Crash("v2"); s.Replace("v2", "v3", 1) }) // its Reply is not on its way yet
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"S", "A", "v1", "v2", "v3"}; !slices.Equal(configured, want) {
		t.Errorf("configured %v, want %v", configured, want)
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"8.000s v1 leaves crane ⟨v1,c1⟩ fence 1\n", "8.000s v1 crashes\n", "S→v2 Reply ⟨v2,c1⟩ lift fence 1 lost"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
	if r.Entries != 1 || strings.Contains(all, "B") {
		t.Errorf("%d entries in\n%s", r.Entries, all)
	}
}

// Done is called however the request ends, but not when its participant does.
func TestDoneIsCalledOnce(t *testing.T) {
	calls := map[string]int{}
	_, _, err := manual(t, nil, func(s *Sim) {
		done := func(what string) func() { return func() { calls[what]++ } }
		s.At(5*second, func() {
			s.Request("A", Request{Resource: "crane", Hold: 2 * second, Done: done("left")})
			s.Request("A", Request{Resource: "lift", Hold: Forever, Done: done("crashed")})
			ref := s.Request("B", Request{Resource: "lift", Hold: second, Done: done("withdrawn")})
			s.At(20*second, func() { s.Withdraw(ref) })
		})
		s.At(30*second, func() { s.Crash("A") })
	})
	if err != nil || calls["left"] != 1 || calls["withdrawn"] != 1 || calls["crashed"] != 0 {
		t.Errorf("%v, %v", calls, err)
	}
}

// A gap lasts from when somebody waits, and nobody holds the resource, until
// somebody does; not while it is held, and not while nobody waits.
func TestGaps(t *testing.T) {
	var gaps []Gap
	_, _, err := manual(t, func(sc *Scenario) { sc.Settings.Resources = []string{"crane"} }, func(s *Sim) {
		look := func() { gaps = append(gaps, s.LongestGap()); s.ResetGaps() }
		s.At(10*second, func() { s.Request("A", Request{Resource: "crane", Hold: 5 * second}) }) // enters at 12
		s.At(13*second, func() { s.Request("B", Request{Resource: "crane", Hold: second}) })     // enters at 19
		s.At(16*second, look)
		s.At(18*second, look) // A left at 17
		s.At(30*second, look)
		s.At(31*second, look)
		s.At(32*second, func() { s.Request("A", Request{Resource: protocol.Any, Hold: second}) })
		s.At(33*second, look)
	})
	want := []Gap{{"crane", 10 * second, 2 * second}, {"crane", 17 * second, second}, {"crane", 18 * second, second}, {}, {"crane", 32 * second, second}}
	if err != nil || !slices.Equal(gaps, want) {
		t.Errorf("%v, %v; want %v", gaps, err, want)
	}
}

// What is sent over a connection that stalls comes late and in order; a new
// connection ends that.
func TestAStalledConnectionDelivers(t *testing.T) {
	got, _, err := manual(t, nil, func(s *Sim) {
		s.At(5*second, func() {
			s.Stall("A", 20*second)
			s.Request("A", Request{Resource: "crane", Hold: second})
			s.Request("A", Request{Resource: "lift", Hold: second})
		})
		s.At(40*second, func() { s.Stall("A", 60*second) })
		s.At(50*second, func() { s.Reconnect("A"); s.Request("A", Request{Resource: "tug", Hold: second}) })
	})
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"5.000s A stalls: until 20.000s\n", "20.000s S←A Request ⟨A,p0,c1⟩ crane\n20.000s S→A Reply ⟨A,c1⟩ crane fence 1\n20.000s S←A Request ⟨A,p0,c2⟩ lift\n",
		"51.000s S←A Request ⟨A,p0,c3⟩ tug\n",
	} {
		if err != nil || !strings.Contains(all, want) {
			t.Errorf("%v: %q is missing in\n%s", err, want, all)
		}
	}
}

// A workload of one's own takes the place of the scenario's, and ends with it.
func TestAWorkloadOfOnesOwn(t *testing.T) {
	s := mustNew(t, "", star(2))
	s.At(50*second, func() { s.SetWorkloadOf("A", Workload{}) })
	s.At(60*second, func() {
		s.SetWorkloadOf("A", Workload{Resources: []string{"lift"}, Hold: Constant(second), Think: Constant(second)})
	})
	var before, after int
	s.At(59*second, func() { before = s.Result().AtNode("A") })
	s.At(61*second, func() { after = s.Result().AtNode("A") })
	r, err := s.Run()
	if err != nil || before == 0 || after != before || r.AtNode("A") < after+50 {
		t.Errorf("%d entries, %d, %d at the end: %v", before, after, r.AtNode("A"), err)
	}
}

func TestWhoCannotBeReplaced(t *testing.T) {
	for want, script := range map[string]func(*Sim){
		`"B" cannot be replaced by "A"`: func(s *Sim) { s.Crash("B"); s.Replace("B", "A", 1) },
		`"B" cannot be replaced by "v"`: func(s *Sim) { s.Replace("B", "v", 1) },
		`"Z" is replaced`:               func(s *Sim) { s.Replace("Z", "v", 1) },
	} {
		_, _, err := manual(t, nil, func(s *Sim) { s.At(5*second, func() { script(s) }) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A share of the messages takes the rare latency, and all others the usual one.
func TestTail(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	tail := Tail{Usual: Constant(second), Share: 0.25, Rare: Constant(9 * second)}
	rare := 0
	for range 10_000 {
		switch tail.between(r, 0, 1) {
		case 9 * second:
			rare++
		case second:
		default:
			t.Fatal("neither")
		}
	}
	if rare < 2300 || rare > 2700 || tail.greatestOf() != 9*second || (Tail{Rare: Constant(second)}).greatestOf() != second {
		t.Errorf("%d of 10000 are rare, the greatest is %v", rare, tail.greatestOf())
	}
	for _, bad := range []Tail{{Share: 2}, {Share: -1}, {Rare: Constant(-1)}, {Usual: Constant(-1)}} {
		if bad.check(2) == nil {
			t.Errorf("%v passes", bad)
		}
	}
}
