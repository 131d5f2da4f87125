package quorum_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/quorum"
	"padme/tests/capture"
)

func (f *fleet) operator(id string) *quorum.Operator {
	o := quorum.NewOperator(port{f.n, id})
	f.n.attach(id, o.Receive)
	return o
}

func inquire(t *testing.T, o *quorum.Operator, voter string) quorum.Report {
	t.Helper()
	r, _, err := o.Inquire(soon(t), voter)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ids(members []quorum.Member) (list string) {
	for _, m := range members {
		list += m.ID
	}
	return list
}

// An operator that is no voter learns who votes and who is missing, and has a voter
// replaced.
func TestOperatorReplacesAVoter(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		o := f.operator("op")
		f.start("a", abc...)
		if r := inquire(t, o, "a"); r.Phase != "enrolling" || r.Config != 0 || r.Domain != "" || len(r.Asking) != 0 {
			t.Errorf("before all have enrolled: %+v", r)
		}
		f.start("b", abc...)
		f.start("c", abc...)
		v := put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		f.n.slow(10 * time.Millisecond)
		r, trip, err := o.Inquire(soon(t), "a")
		if err != nil || trip <= 0 || trip > 20*time.Millisecond {
			t.Errorf("round trip %v, %v", trip, err)
		}
		if r.Phase != "voting" || r.Config != 1 || ids(r.Voters) != "abc" || r.Instance != r.Voters[0].Instance || r.Problem != "" || r.Sync < 0 {
			t.Errorf("%+v", r)
		}
		f.kill("c")
		time.Sleep(3 * time.Second)
		if r := inquire(t, o, "b"); !slices.Equal(r.Missing, []string{"c"}) {
			t.Errorf("missing %v", r.Missing)
		}
		if err := o.Replace(soon(t), "a", "c", "d"); err == nil || !strings.Contains(err.Error(), `"d" has not asked to be enrolled`) {
			t.Errorf("by a voter that does not run: %v", err)
		}
		f.start("d", "a", "b", "d")
		time.Sleep(time.Second)
		if r := inquire(t, o, "d"); r.Phase != "refused" || !strings.Contains(r.Problem, "voters replace OLD d") {
			t.Errorf("%+v", r)
		}
		if r := inquire(t, o, "a"); ids(r.Asking) != "d" {
			t.Errorf("asking: %+v", r)
		}
		if err := o.Replace(soon(t), "a", "z", "d"); err == nil || !strings.Contains(err.Error(), `"z" is no voter`) {
			t.Errorf("of no voter: %v", err)
		}
		if err := o.Replace(soon(t), "a", "c", "d"); err != nil {
			t.Fatal(err)
		}
		if e := get(t, f.voters["d"], "crane"); e.Version != v {
			t.Errorf("crane is at %v, not %v", e.Version, v)
		}
		if r := inquire(t, o, "d"); r.Phase != "voting" || r.Config != 2 || ids(r.Voters) != "abd" {
			t.Errorf("%+v", r)
		}
		c := f.start("c", abc...)
		time.Sleep(time.Second)
		if r := c.Report(); r.Phase != "retired" || !strings.Contains(r.Problem, "stop it") {
			t.Errorf("%+v", r)
		}
		f.kill("a")
		f.kill("b")
		if err := o.Replace(soon(t), "d", "a", "x"); err == nil {
			t.Error("replaced without a majority")
		}
	})
}

// Without a majority nobody is replaced, and the error names who is missing.
func TestOperatorNeedsAMajority(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		o := f.operator("op")
		for _, id := range abc {
			f.start(id, abc...)
		}
		put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		f.kill("b")
		f.kill("c")
		f.start("d", "a", "b", "d")
		time.Sleep(time.Second)
		err := o.Replace(soon(t), "a", "c", "d")
		var u *register.Unavailable
		if !errors.As(err, &u) || !errors.Is(err, register.ErrUnknown) {
			t.Fatalf("got %v", err)
		}
	})
}

// A voter that was started with a wrong list, and has never voted, is started again
// with the right one.
func TestWrongListIsCorrected(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		a := f.start("a", abc...)
		f.start("b", abc...)
		c := f.start("c", "a", "c", "d")
		time.Sleep(3 * time.Second)
		for _, v := range []*quorum.Voter{a, c} {
			if r := v.Report(); r.Phase != "refused" || !strings.Contains(r.Problem, "a,b,c") || !strings.Contains(r.Problem, "a,c,d") {
				t.Errorf("%+v", r)
			}
		}
		f.kill("c")
		time.Sleep(3 * time.Second)
		if r := a.Report(); r.Phase != "enrolling" || r.Problem != "" || !slices.Equal(r.Missing, []string{"c"}) {
			t.Errorf("once nobody has another list: %+v", r)
		}
		f.start("c", abc...)
		put(t, a, register.Write{Key: "crane", Value: []byte("1")})
	})
}

// missingGauges are the values by voter.
func missingGauges(t *testing.T, v *quorum.Voter) (values string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(v)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "qosmutex_voters_missing" {
			for _, m := range family.GetMetric() {
				values += fmt.Sprintf("%s:%v ", m.GetLabel()[1].GetValue(), m.GetGauge().GetValue())
			}
		}
	}
	return values
}

// All voters refuse one that was started with another list, in turn. That is one cause, and
// one line, however often they say it and for however long.
func TestRefusedVoterDoesNotFillTheLog(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.n.slow(20 * time.Millisecond) // who answers last differs
		f.startAll()
		log := &capture.Text{}
		f.startLogged("e", log, "a", "b", "e")
		time.Sleep(10 * time.Minute)
		if got := log.Take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "it was started with the voters a,b,e, but ") {
			t.Errorf("%d lines, want one: %.1000s", strings.Count(got, "\n"), got)
		}
	})
}

// Of refusals of several causes that alternate each is logged, once a minute.
func TestAlternatingRefusals(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		log := &capture.Text{}
		var boot atomic.Uint64 // of the run of a: what is said of another one does not count
		f.n.attach("b", func(_ string, message []byte) {
			if msg, err := caspaxos.Decode(message); err == nil {
				boot.Store(msg.Run.Boot)
			}
		})
		a := f.startLogged("a", log, abc...)
		time.Sleep(time.Second)
		for range 60 {
			for _, other := range []string{"x", "y"} {
				a.Receive("b", caspaxos.AppendMessage(nil, &caspaxos.Message{
					Kind: caspaxos.KindReject, Reason: caspaxos.ReasonVoters, Voters: []string{"a", "b", other}, About: boot.Load(),
				}))
				time.Sleep(time.Second)
			}
		}
		got := log.Take()
		for _, other := range []string{"x", "y"} {
			if n := strings.Count(got, "but b with a,b,"+other); n != 2 {
				t.Errorf("%d lines of %s in two minutes, want two: %.1000s", n, other, got)
			}
		}
	})
}

// The log and the metrics tell of the first voter that is missing, not only when the
// majority is gone, and of its return. A start is no alarm.
func TestAlarmFromTheFirstMissingVoterOn(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		log := &capture.Text{}
		start := func(id string) *quorum.Voter { return f.start(id, abc...) }
		a := f.startLogged("a", log, abc...)
		time.Sleep(3 * time.Second)
		if got := log.Take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "waiting for voters") || !strings.Contains(got, "missing=b,c") {
			t.Errorf("alone: %s", got)
		}
		start("b")
		start("c")
		put(t, a, register.Write{Key: "crane", Value: []byte("1")})
		time.Sleep(3 * time.Second)
		log.Take()
		expect := func(what, want string) {
			t.Helper()
			time.Sleep(3 * time.Second)
			if got := log.Take(); strings.Count(got, "\n") != 1 || !strings.Contains(got, want) {
				t.Errorf("%s: %q, want one line with %q", what, got, want)
			}
		}
		a.Receive("x", caspaxos.AppendMessage(nil, &caspaxos.Message{Kind: caspaxos.KindHello, Domain: register.Domain{1}}))
		expect("a voter of another domain", "level=WARN msg=\"x sends it messages of another domain")
		f.kill("c")
		expect("one is missing", "level=WARN msg=\"a voter is missing")
		if got := missingGauges(t, a); got != "b:0 c:1 " {
			t.Errorf("metrics: %s", got)
		}
		f.kill("b")
		expect("two are missing", "level=ERROR msg=\"a majority of the voters is missing")
		start("b")
		expect("one is back", "missing=c")
		start("c")
		expect("all are back", "no voter is missing any more")
		time.Sleep(time.Minute)
		if got := log.Take(); got != "" {
			t.Errorf("later: %s", got)
		}
	})
}
