package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/quorum"
	"padme/tests/bubble"
	"padme/tests/capture"
)

// metric returns what a voter counts or measures under a name, with this value of a label.
func metric(t *testing.T, v *quorum.Voter, name, label string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(v)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("there is no %s of %s", name, label)
	return 0
}

// while has the disk of a voter hang meanwhile.
func (v *lone) while(f func()) {
	v.gate = make(chan struct{})
	v.hold()
	f()
	v.held.Store(false)
	close(v.gate)
	time.Sleep(20 * time.Second) // what waits is handled, or late
}

// creates has somebody create names that nobody else does.
func (v *lone) creates(from string, n int) {
	for range n {
		v.seq++
		v.request(from, v.seq, caspaxos.Message{Writes: []register.Write{{Key: fmt.Sprint("name ", v.seq), Nonce: 1}}})
	}
	time.Sleep(time.Second)
}

// fill has the voter keep as many names as it may.
func (v *lone) fill(t *testing.T) {
	t.Helper()
	for i := 0; i < caspaxos.MaxKeys; i += caspaxos.MaxBatch {
		var writes []register.Write
		for j := range caspaxos.MaxBatch {
			writes = append(writes, register.Write{Key: fmt.Sprint("kept ", i+j), Nonce: 1})
		}
		for _, r := range v.CompareAndSet(t.Context(), writes...) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// excesses are ways to go beyond each limit of a voter, as mallory.
var excesses = map[string]struct {
	options quorum.Options
	most    int
	begin   func(t *testing.T, v *lone)
	again   func(v *lone)
}{
	"max-voter-rate": {options: quorum.Options{Rate: 1 << 20}, most: 1 << 20, again: func(v *lone) {
		question := caspaxos.AppendMessage(nil, &caspaxos.Message{Kind: caspaxos.KindInquire, Seq: 1})
		for range 100 {
			v.Receive("mallory", question)
		}
	}},
	"max-voter-names": {options: quorum.Options{Names: 3}, most: 3, again: func(v *lone) { v.creates("mallory", 20) }},
	"voter-line": {most: 1 << 20, again: func(v *lone) {
		v.while(func() {
			for range 17 {
				v.Receive("mallory", make([]byte, 1<<16))
			}
		})
	}},
	"voter-waiting": {most: 1 << 25, again: func(v *lone) {
		v.while(func() {
			for range 15 {
				v.Receive("mallory", make([]byte, 1<<16))
			}
			for i := range 40 {
				for range 14 {
					v.Receive(fmt.Sprint("other", i), make([]byte, 1<<16))
				}
			}
		})
	}},
	"voter-lines": {most: 1 << 12, again: func(v *lone) {
		v.while(func() {
			for i := range 1 << 12 {
				v.Receive(fmt.Sprint("other", i), []byte{0})
			}
			v.Receive("mallory", []byte{0})
		})
	}},
	// Two others do not answer, so nothing ends.
	"voter-requests": {options: quorum.Options{Voters: []string{"a", "b", "c"}}, most: 64, again: func(v *lone) {
		for i := range caspaxos.MaxOpsPerClient {
			v.request("mallory", i, caspaxos.Message{Keys: []string{"crane"}})
		}
		v.request("mallory", 1000, caspaxos.Message{Keys: []string{"crane"}, Within: caspaxos.Time(time.Second)})
		time.Sleep(20 * time.Second)
	}},
	"voter-keys": {most: caspaxos.MaxKeys, begin: func(t *testing.T, v *lone) { v.fill(t) }, again: func(v *lone) { v.creates("mallory", 2) }},
}

// Each limit of a voter is counted, and at most once a minute a line names it, its value, who is
// beyond it and what to do.
func TestEveryLimitOfAVoterIsLogged(t *testing.T) {
	for _, limit := range quorum.LimitNames() {
		e, known := excesses[limit]
		if !known {
			t.Errorf("nothing goes beyond %s", limit)
			continue
		}
		t.Run(limit, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				var log capture.Text
				o := e.options
				o.Logger = log.Logger()
				if o.Voters == nil {
					o.Voters = []string{"a"}
				}
				v := startWith(t, o)
				time.Sleep(time.Second)
				if e.begin != nil {
					e.begin(t, v)
				}
				if n := metric(t, v.Voter, "qosmutex_voter_limited_total", limit); n != 0 {
					t.Fatalf("%v are beyond the limit from the start", n)
				}
				line := regexp.MustCompile(fmt.Sprintf(`level=WARN msg="limit reached" voter=a limit=%s most=%d from=mallory remedy=".`, limit, e.most))
				for i, want := range []int{1, 1, 2} {
					if i == 2 {
						time.Sleep(time.Minute)
					}
					before := metric(t, v.Voter, "qosmutex_voter_limited_total", limit)
					e.again(v)
					synctest.Wait()
					if metric(t, v.Voter, "qosmutex_voter_limited_total", limit) == before {
						t.Errorf("round %d: nothing is counted", i)
					}
					if n := len(line.FindAllString(log.String(), -1)); n != want {
						t.Fatalf("round %d: %d lines, not %d: %s\n%.4000s", i, n, want, line, log.String())
					}
				}
			})
		})
	}
}

// A register that fills up is told beforehand, and whoever finds it full is told why.
func TestRegisterThatIsFull(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log capture.Text
		v := startWith(t, quorum.Options{Voters: []string{"a"}, Logger: log.Logger()})
		time.Sleep(time.Second)
		v.fill(t)
		if n := strings.Count(log.String(), `msg="the register is nearly full`); n != 1 {
			t.Errorf("%d lines that it is nearly full: %s", n, log.String())
		}
		if kept, most := metric(t, v.Voter, "qosmutex_voter_names", "a"), metric(t, v.Voter, "qosmutex_voter_names_limit", "a"); kept != most || most != caspaxos.MaxKeys {
			t.Errorf("%v of %v names are kept", kept, most)
		}
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := v.CompareAndSet(within, register.Write{Key: "one more", Nonce: 1})[0]
		if !errors.Is(r.Err, register.ErrUnavailable) || !errors.Is(r.Err, caspaxos.ErrNoRoom) || errors.Is(r.Err, register.ErrUnknown) {
			t.Errorf("one more: %v", r.Err)
		}
		if r := v.CompareAndSet(t.Context(), register.Write{Key: "kept 1", Old: get(t, v, "kept 1").Version, Value: []byte("2"), Nonce: 2})[0]; r.Err != nil {
			t.Errorf("one that is there: %v", r.Err)
		}
	})
}

// How much is done for one participant is what the option says.
func TestRateOfAVoter(t *testing.T) {
	for rate, least := range map[int]int{1 << 20: 10, 4 << 20: 50} {
		bubble.Test(t, func(t *testing.T) {
			v := startWith(t, quorum.Options{Voters: []string{"a"}, Rate: rate})
			time.Sleep(time.Second)
			put(t, v, register.Write{Key: "large", Value: make([]byte, register.MaxValue)})
			for i := range 500 {
				v.request("mallory", i, caspaxos.Message{Keys: []string{"large"}})
			}
			time.Sleep(time.Second)
			if n := v.count("mallory Reply"); n < least || n > 3*least {
				t.Errorf("with %d bytes a second mallory was sent 64 KB %d times", rate, n)
			}
		})
	}
}

// Options that make no sense are refused by name.
func TestLimitsOfAVoterAreChecked(t *testing.T) {
	for field, o := range map[string]quorum.Options{
		"Rate is -1": {Rate: -1}, "Rate is 100": {Rate: 100}, "Names is -1": {Names: -1}, "Names is 65537": {Names: 65537},
	} {
		o.Self, o.Voters = "a", []string{"a"}
		if _, err := quorum.StartOn(o, &listener{}, &quorum.MemoryDisk{}, 1); !errors.Is(err, register.ErrInvalid) || !strings.Contains(fmt.Sprint(err), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Eight others have 64 requests each going on: whoever has one is not beyond 64.
func TestWhoWaitsForOthersRequestsIsNotAccused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log capture.Text
		v := startWith(t, quorum.Options{Voters: []string{"a", "b", "c"}, Logger: log.Logger()})
		time.Sleep(time.Second)
		for i := range 8 {
			for j := range caspaxos.MaxOpsPerClient {
				v.request(fmt.Sprint("other", i), j, caspaxos.Message{Keys: []string{"crane"}, Within: caspaxos.Time(time.Minute)})
			}
			time.Sleep(2 * time.Second)
		}
		v.request("victim", 1, caspaxos.Message{Keys: []string{"crane"}, Within: caspaxos.Time(time.Second)})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if strings.Contains(log.String(), "limit=voter-requests most=64 from=victim") {
			t.Errorf("a participant with one request is named as the one beyond 64:\n%s", regexp.MustCompile(`.*from=victim.*`).FindString(log.String()))
		}
	})
}

// The voter's own process may have 1,024 requests going on, and the line says so.
func TestLineOfTheVoterItself(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log capture.Text
		v := startWith(t, quorum.Options{Voters: []string{"a", "b", "c"}, Logger: log.Logger()})
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for i := range caspaxos.MaxOps + 1 {
			go v.CompareAndSet(ctx, register.Write{Key: fmt.Sprint("k", i), Nonce: 1})
			synctest.Wait()
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if l := regexp.MustCompile(`.*voter-requests.*`).FindString(log.String()); !strings.Contains(l, "most=1024") {
			t.Errorf("%d requests of the voter's own process: %s", caspaxos.MaxOps+1, l)
		}
		time.Sleep(10 * time.Second)
	})
}
