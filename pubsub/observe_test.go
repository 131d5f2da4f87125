package pubsub

import (
	"slices"
	"testing"
	"time"
)

func TestEndpointsOfTheDomain(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, b, c := d.join("a"), d.join("b"), d.join("c")
		writerOf(t, topicOf[pose](t, a, "p"), QoS{Reliability: Reliable, Deadline: time.Second, Partition: []string{"north"}})
		readerOf(t, topicOf[pose](t, b, "p"), QoS{Reliability: Reliable, Partition: []string{"n*"}})
		gone := writerOf(t, topicOf[int](t, a, "q"), QoS{})
		if err := gone.Close(testContext(t)); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		e, err := c.Endpoints(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(e) != 2 || e[0].Kind != "writer" || e[1].Kind != "reader" || e[0].GUID.Participant != "a" || e[1].GUID.Participant != "b" {
			t.Fatalf("the endpoints are %+v", e)
		}
		if q := e[0].QoS; q.Reliability != Reliable || q.Deadline != time.Second || !slices.Equal(q.Partition, []string{"north"}) || !e[0].Alive {
			t.Errorf("the writer is %+v", e[0])
		}
		if why := e[0].Mismatch(e[1]); why != "" {
			t.Errorf("they do not match: %s", why)
		}
	})
}

func TestEndpointsHaveWhatTheBrokerHas(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, c := d.join("a"), d.join("c")
		for n := range 9 {
			writerOf(t, topicOf[pose](t, a, "p"), QoS{})
			for _, p := range []*Participant{a, c} { // once a has its own back, the broker has it
				if e, err := p.Endpoints(testContext(t)); err != nil || len(e) != n+1 {
					t.Fatalf("after %d writers %s knows %d: %v", n+1, p.ID(), len(e), err)
				}
			}
		}
	})
}

func TestEndpointsOfTheDeadAreNotAlive(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, cable := d.joinBy("a")
		c := d.join("c")
		writerOf(t, topicOf[pose](t, a, "p"), QoS{})
		pass(time.Second)
		cable.Cut()
		pass(time.Second)
		e, err := c.Endpoints(testContext(t))
		if err != nil || len(e) != 1 || e[0].Alive {
			t.Errorf("%+v %v", e, err)
		}
	})
}

func TestMismatchNamesTheReason(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, c := d.join("a"), d.join("c")
		writerOf(t, topicOf[pose](t, a, "p"), QoS{})
		for want, make := range map[string]func(){
			"":            func() { readerOf(t, topicOf[pose](t, a, "p"), QoS{}) },
			"RELIABILITY": func() { readerOf(t, topicOf[pose](t, a, "p"), QoS{Reliability: Reliable}) },
			"DEADLINE":    func() { readerOf(t, topicOf[pose](t, a, "p"), QoS{Deadline: time.Second}) },
			"PARTITION":   func() { readerOf(t, topicOf[pose](t, a, "p"), QoS{Partition: []string{"x"}}) },
			"TYPE":        func() { readerOf(t, topicOf[int](t, a, "p"), QoS{}) },
		} {
			before, err := c.Endpoints(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			make()
			pass(time.Second)
			after, err := c.Endpoints(testContext(t))
			if err != nil {
				t.Fatal(err)
			}
			w := slices.IndexFunc(after, func(e Announcement) bool { return e.Kind == "writer" })
			r := slices.IndexFunc(after, func(e Announcement) bool {
				return e.Kind == "reader" && !slices.ContainsFunc(before, func(o Announcement) bool { return o.GUID == e.GUID })
			})
			if r < 0 {
				t.Fatalf("%s: the new reader is missing in %+v", want, after)
			}
			if got := after[w].Mismatch(after[r]); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := after[r].Mismatch(after[w]); got != want {
				t.Errorf("from the reader's side: got %q, want %q", got, want)
			}
		}
	})
}

func TestObserversSeeAnyTypeInAnyPartition(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, c := d.join("a"), d.join("c")
		seen := make(chan ObservedSample, 9)
		stop, err := c.ObserveSamples(testContext(t), "p", func(s ObservedSample) { seen <- s })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		packed := writerOf(t, topicOf[pose](t, a, "p"), QoS{Partition: []string{"north"}})
		text := writerOf(t, topicOf[pose](t, a, "p", WithCodec(JSON)), QoS{})
		pass(time.Second)
		write(t, packed, pose{Robot: "r", X: 1})
		write(t, text, pose{Robot: "s", X: 2})
		if err := text.Dispose(testContext(t), pose{Robot: "s"}); err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct {
			partition, key string
			kind           SampleKind
			body           string
		}{
			{"north", "r", SampleWritten, `{"Robot":"r","Tags":null,"X":1,"Y":0}`},
			{"default", "s", SampleWritten, `{"Robot":"s","X":2,"Y":0,"Tags":null}`},
			{"default", "s", SampleDisposed, `{"Robot":"s","X":0,"Y":0,"Tags":null}`},
		} {
			s := <-seen
			body, err := s.JSON()
			if err != nil || s.Partition != want.partition || s.Key != want.key || s.Kind != want.kind || string(body) != want.body {
				t.Errorf("%d: %+v %s %v", i, s, body, err)
			}
			if !s.SourceTime.Equal(time.Now()) || s.Size <= len(s.Body) {
				t.Errorf("%d: %+v at %v", i, s, time.Now())
			}
		}
	})
}

func TestCodecOfAnUnannouncedWriter(t *testing.T) {
	for want, bodies := range map[Codec][]string{
		JSON:    {`{"a":1}`, "12", `"x"`, " 1"},
		Msgpack: {"\x81\xa1a\x01", "\xcc\xff", "\xc0", "\xff"},
		"":      {"1", "\x01", ""},
	} {
		for _, body := range bodies {
			if got := codecOf([]byte(body)); got != want {
				t.Errorf("%q: %q, want %q", body, got, want)
			}
		}
	}
}

func TestObserversOfSeveralTopics(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, c := d.join("a"), d.join("c")
		seen := make(chan ObservedSample, 9)
		stop, err := c.ObserveSamples(testContext(t), "home/+/celsius", func(s ObservedSample) { seen <- s })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		for i, name := range []string{"home/roof/celsius", "home/roof", "home/roof/celsius/mean", "away/roof/celsius", "home/cellar/celsius"} {
			write(t, writerOf(t, topicOf[int](t, a, name), QoS{}), i)
		}
		pass(time.Second)
		for _, want := range []string{"home/roof/celsius", "home/cellar/celsius"} {
			if s := <-seen; s.Topic != want {
				t.Errorf("a sample of %q, want %q", s.Topic, want)
			}
		}
		if len(seen) > 0 {
			t.Errorf("also %+v", <-seen)
		}
	})
}

func TestNamesMatchAsInMQTT(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"#", "a", true},
		{"#", "a/b", true},
		{"a/#", "a", true},
		{"a/#", "a/b/c", true},
		{"a/#", "ab", false},
		{"+", "a", true},
		{"+", "a/b", false},
		{"+/b", "a/b", true},
		{"a/+", "a", false},
		{"a/+/c", "a/b/c", true},
		{"a/+/c", "a/b/d", false},
		{"+/+", "a/", true},
		{"a/+/#", "a", false},
		{"a/+/#", "a/b", true},
	} {
		if got := nameMatches(c.pattern, c.name); got != c.want || !HasWildcard(c.pattern) {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
	if HasWildcard("c#") || HasWildcard("a+b/c") || HasWildcard("#/a") {
		t.Error("a name without a wildcard has one")
	}
}
