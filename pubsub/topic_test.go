package pubsub

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

type pose struct {
	Robot string `pubsub:"key"`
	X, Y  float64
	Tags  []string
}

func topicOf[T any](t testing.TB, p *Participant, name string, opts ...TopicOption) *Topic[T] {
	t.Helper()
	topic, err := NewTopic[T](p, name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func writerOf[T any](t testing.TB, topic *Topic[T], q QoS) *Writer[T] {
	t.Helper()
	w, err := NewWriter(testContext(t), topic, WithQoS(q))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func readerOf[T any](t testing.TB, topic *Topic[T], q QoS) *Reader[T] {
	t.Helper()
	r, err := NewReader(testContext(t), topic, WithQoS(q))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func write[T any](t testing.TB, w *Writer[T], v T) {
	t.Helper()
	if err := w.Write(testContext(t), v); err != nil {
		t.Fatal(err)
	}
}

func awaitReaders[T any](t testing.TB, w *Writer[T], n int) {
	t.Helper()
	if err := w.WaitMatched(testContext(t), n); err != nil {
		t.Fatalf("WaitMatched: %v", err)
	}
}

// collect takes n samples.
func collect[T any](t testing.TB, r *Reader[T], n int) (out []Sample[T]) {
	t.Helper()
	if n == 0 {
		return nil
	}
	for s, err := range r.Samples(testContext(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, s); len(out) == n {
			return out
		}
	}
	t.Fatalf("%d samples of %d", len(out), n)
	return nil
}

// awaitEvent returns the first event of a type.
func awaitEvent[E Event](t testing.TB, ev *events) E {
	t.Helper()
	for e := range ev.all(testContext(t), nil, nil) {
		if want, ok := e.(E); ok {
			return want
		}
	}
	t.Fatalf("no %T", *new(E))
	panic("unreachable")
}

func TestSamplesArriveInOrderWithTheirInfo(t *testing.T) {
	url := startBroker(t)
	for _, codec := range []Codec{Msgpack, JSON} {
		for _, reliability := range []Reliability{BestEffort, Reliable} {
			t.Run(fmt.Sprintf("%s/%d", codec, reliability), func(t *testing.T) {
				a, b := join(t, url, "a"), join(t, url, "b")
				q := QoS{Reliability: reliability, History: KeepAll}
				w := writerOf(t, topicOf[pose](t, a, "pose of / robots", WithCodec(codec)), q)
				r := readerOf(t, topicOf[pose](t, b, "pose of / robots", WithCodec(codec)), q)
				awaitReaders(t, w, 1)
				for i := range 500 {
					write(t, w, pose{Robot: fmt.Sprintf("r%d", i%3), X: float64(i), Tags: []string{"x"}})
				}
				for i, s := range collect(t, r, 500) {
					in := s.Info
					if s.Data.X != float64(i) || !reflect.DeepEqual(s.Data.Tags, []string{"x"}) || !in.Valid || in.State != Alive ||
						in.Key != s.Data.Robot || in.Writer != w.GUID() || in.Sequence != uint64(i+1) || in.ReceiveTime.Before(in.SourceTime) {
						t.Fatalf("sample %d: %+v", i, s)
					}
				}
			})
		}
	}
}

func TestASampleMayBeAnyType(t *testing.T) {
	url := startBroker(t)
	a := join(t, url, "a")
	q := QoS{Reliability: Reliable, History: KeepAll}
	roundTrip(t, a, q, "text")
	roundTrip(t, a, q, []byte{1, 2})
	roundTrip(t, a, q, 42)
	roundTrip(t, a, q, map[string]float64{"a": math.Pi})
	roundTrip(t, a, q, struct {
		N int  `pubsub:"key"`
		B bool `pubsub:"key"`
		P *int
	}{N: -3, B: true})
}

func roundTrip[T any](t *testing.T, p *Participant, q QoS, v T) {
	topic := topicOf[T](t, p, fmt.Sprintf("%.100T", v))
	w, r := writerOf(t, topic, q), readerOf(t, topic, q)
	awaitReaders(t, w, 1)
	write(t, w, v)
	if s := collect(t, r, 1)[0]; !reflect.DeepEqual(s.Data, v) {
		t.Errorf("%#v came back as %#v", v, s.Data)
	}
}

func TestALateJoinerGetsTheHistoryOfLiveWriters(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	local := QoS{Reliability: Reliable, Durability: TransientLocal, Depth: 2}
	w := writerOf(t, topicOf[pose](t, a, "p"), local)
	for i := range 10 {
		write(t, w, pose{Robot: fmt.Sprint("r", i%2), X: float64(i)})
	}
	all := local
	all.History = KeepAll
	r := readerOf(t, topicOf[pose](t, b, "p"), all)
	var got []float64
	for _, s := range collect(t, r, 4) {
		got = append(got, s.Data.X)
	}
	if !reflect.DeepEqual(got, []float64{6, 7, 8, 9}) {
		t.Errorf("history %v", got)
	}
	volatile := readerOf(t, topicOf[pose](t, b, "p"), QoS{Reliability: Reliable, History: KeepAll})
	awaitReaders(t, w, 2)
	write(t, w, pose{X: 10})
	if s := collect(t, volatile, 1); s[0].Data.X != 10 {
		t.Errorf("a volatile reader got %v", s)
	}
	for _, e := range drain(r.ep.events) {
		if lost, ok := e.(SampleLost); ok {
			t.Errorf("%+v, although nothing is missing that the history promises", lost)
		}
	}
	closeNow(t, a)
	late := readerOf(t, topicOf[pose](t, b, "p"), all)
	c := join(t, url, "c")
	w2 := writerOf(t, topicOf[pose](t, c, "p"), local)
	write(t, w2, pose{X: 11})
	if s := collect(t, late, 1); s[0].Data.X != 11 {
		t.Errorf("a dead writer's sample came back: %v", s)
	}
}

func drain(ev *events) (out []Event) {
	for {
		e, ok := ev.next()
		if !ok {
			return out
		}
		out = append(out, e)
	}
}

func TestIncompatibleEndpointsTellEachOther(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	reliable, local := QoS{Reliability: Reliable}, QoS{Reliability: Reliable, Durability: TransientLocal}
	for _, c := range []struct {
		offered, requested QoS
		policy             string
	}{
		{QoS{}, reliable, "RELIABILITY"},
		{reliable, local, "DURABILITY"},
		{local, QoS{}, ""},
		{reliable, QoS{}, ""},
	} {
		name := fmt.Sprint("t-", c.policy, c.offered.Durability)
		w := writerOf(t, topicOf[int](t, a, name), c.offered)
		r := readerOf(t, topicOf[int](t, b, name), c.requested)
		if c.policy == "" {
			awaitReaders(t, w, 1)
			continue
		}
		if e := awaitEvent[IncompatibleQoS](t, w.ep.events); e.Policy != c.policy || e.Peer != r.GUID() {
			t.Errorf("writer: %+v", e)
		}
		if e := awaitEvent[IncompatibleQoS](t, r.ep.events); e.Policy != c.policy || e.Peer != w.GUID() {
			t.Errorf("reader: %+v", e)
		}
		write(t, w, 1)
		ok := writerOf(t, topicOf[int](t, a, name), c.requested)
		awaitReaders(t, ok, 1)
		write(t, ok, 2)
		if s := collect(t, r, 1); s[0].Data != 2 {
			t.Errorf("data flowed in spite of %s: %v", c.policy, s)
		}
	}
}

func TestAnotherTypeUnderTheNameIsInconsistent(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	w := writerOf(t, topicOf[int](t, a, "t"), QoS{})
	r := readerOf(t, topicOf[string](t, b, "t"), QoS{})
	if e := awaitEvent[InconsistentTopic](t, w.ep.events); e.Type != "string" {
		t.Errorf("%+v", e)
	}
	if e := awaitEvent[InconsistentTopic](t, r.ep.events); e.Type != "int" {
		t.Errorf("%+v", e)
	}
}

func TestUnsupportedPoliciesAreRefused(t *testing.T) {
	a := join(t, startBroker(t), "a")
	topic := topicOf[int](t, a, "t")
	supported := map[string]bool{
		"Reliability": true, "MaxBlocking": true, "Durability": true, "History": true, "Depth": true, "MaxSamples": true, "MaxInstances": true,
		"Deadline": true, "Lifespan": true, "Liveliness": true, "LivelinessLease": true, "Exclusive": true, "Strength": true,
		"Partition": true, "TimeBasedFilter": true, "BySourceTime": true, "AllowCompatible": true,
	}
	typ := reflect.TypeFor[QoS]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		var q QoS
		v := reflect.ValueOf(&q).Elem().Field(i)
		switch {
		case supported[f.Name]:
			continue
		case v.CanInt():
			v.SetInt(1)
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		default:
			v.SetString("x")
		}
		if _, err := NewWriter(t.Context(), topic, WithQoS(q)); !errors.Is(err, ErrUnsupportedQoS) {
			t.Errorf("writer with %s: %v", f.Name, err)
		}
		if _, err := NewReader(t.Context(), topic, WithQoS(q)); !errors.Is(err, ErrUnsupportedQoS) {
			t.Errorf("reader with %s: %v", f.Name, err)
		}
	}
	for _, q := range []QoS{{Durability: Persistent}} {
		if _, err := NewWriter(t.Context(), topic, WithQoS(q)); !errors.Is(err, ErrUnsupportedQoS) || !strings.Contains(err.Error(), "DURABILITY") {
			t.Errorf("%+v: %v", q, err)
		}
	}
	for _, q := range []QoS{{Reliability: 7}, {History: 7}, {Durability: Transient}, {Reliability: Reliable, Durability: Transient, Partition: []string{"a*"}}, {TimeBasedFilter: -1}, {TimeBasedFilter: 1}, {AllowCompatible: true}, {Partition: []string{""}}, {Partition: []string{"a["}}, {Partition: []string{"a", "a"}}, {Depth: -1}, {MaxSamples: -1}, {MaxSamples: 1 << 30}, {Depth: 9, MaxSamples: 8}, {MaxBlocking: -1}} {
		if _, err := NewWriter(t.Context(), topic, WithQoS(q)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestTopicsAreChecked(t *testing.T) {
	a := join(t, startBroker(t), "a")
	_, errs := NewTopic[int](a, "")
	_, tag := NewTopic[struct {
		A int `pubsub:"kye"`
	}](a, "t")
	_, float := NewTopic[struct {
		A float64 `pubsub:"key"`
	}](a, "t")
	_, hidden := NewTopic[struct {
		a int `pubsub:"key"`
	}](a, "t")
	_, codec := NewTopic[int](a, "t", WithCodec("xml"))
	for _, err := range []error{errs, tag, float, hidden, codec} {
		if !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
}
