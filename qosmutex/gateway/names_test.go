package gateway

import (
	"fmt"
	"testing"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// A client that names ever new resources is slowed down, and nobody else. Names that are in use
// go on, as do declared ones.
func TestNewNamesOfOneClientAreBounded(t *testing.T) {
	onSite(t, func(s *site) {
		topic, end := s.create("yard", qosmutex.WithResources(many("declared", 600)...))
		defer end()
		if topic.View().Open {
			t.Fatal("the lock takes any name")
		}
		g := s.gateway("gw")
		defer g.stop()
		greedy, other, declares := s.client("greedy", "crane"), s.client("other", "crane"), s.client("careful", "yard")
		defer greedy.close()
		defer other.close()
		defer declares.close()
		greedy.ask(jsonlock.Acquire, "0", `"lease_ms":600000`, jsonlock.Granted)
		tooFast := func() float64 { return g.counted("qosmutex_gateway_refused_total", string(jsonlock.TooFast)) }
		const seconds, each, nameRate = 10, 200, 50
		for second := range seconds {
			for _, op := range []string{`"acquire","resource":"%[1]d-%[2]d"`, `"release"`} {
				for i := range each {
					greedy.raw(fmt.Sprintf(`{"id":"%[1]d-%[2]d","op":`+op+`}`, second, i))
				}
				time.Sleep(time.Second / 2)
			}
		}
		if want := seconds*each - 2*jsonlock.MaxLive - seconds*nameRate; tooFast() < float64(want) || tooFast() > float64(want+2*nameRate) {
			t.Errorf("%v new names were too many, not %d", tooFast(), want)
		}
		if a := greedy.await(fmt.Sprintf("%d-%d", seconds-1, each-1), jsonlock.Denied); a.Reason != jsonlock.TooFast || a.Detail == "" {
			t.Errorf("%+v", a)
		}
		other.ask(jsonlock.Acquire, "1", `"resource":"a new one"`, jsonlock.Granted)
		refused := tooFast()
		for i := range 600 { // a name that is known, and declared ones
			greedy.ask(jsonlock.Acquire, fmt.Sprint("same", i), `"resource":"default","wait_ms":0`, jsonlock.Denied)
			declares.ask(jsonlock.Acquire, fmt.Sprint("d", i), fmt.Sprintf(`"resource":"declared%d"`, i), jsonlock.Granted)
			declares.ask(jsonlock.Release, fmt.Sprint("d", i), "", jsonlock.Released)
		}
		if more := tooFast() - refused; more != 0 {
			t.Errorf("%v known or declared names were too many", more)
		}
	})
}

// many are names that begin so.
func many(begin string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(begin, i))
	}
	return names
}

// What is known are the names that were used last, and no more than two rounds of them.
func TestNamesAreForgotten(t *testing.T) {
	n := newNames()
	for i := range 10 * namesKept {
		n.use(fmt.Sprint(i))
		n.use("often")
		if !n.knows("often") || !n.knows(fmt.Sprint(max(0, i-namesKept+2))) {
			t.Fatalf("after %d names one of the last is not known", i)
		}
	}
	if n.knows("0") || len(n.recent)+len(n.before) > 2*namesKept {
		t.Errorf("%d names are known", len(n.recent)+len(n.before))
	}
}
