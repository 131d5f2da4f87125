package pubsub

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"padme/pubsub/internal/cache"
	"padme/pubsub/internal/discovery"
	"padme/tests/cable"
)

// What docs/qos.md says beside Cyclone DDS, Fast DDS and Zenoh and no other test shows.

// The zero QoS is best effort, volatile, keep last 1 of each instance.
func TestTheZeroQoS(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, b := topicOf[pose](t, d.join("a"), "p"), topicOf[pose](t, d.join("b"), "p")
		w, r := writerOf(t, a, QoS{}), readerOf(t, b, QoS{})
		awaitReaders(t, w, 1)
		for i := range 6 {
			write(t, w, poseOf(name("r", i%2), float64(i)))
		}
		pass(time.Second)
		expectXs(t, "a reader", r, 4, 5)
		peer := r.Matched()[0]
		if peer.Reliability != BestEffort || peer.Durability != Volatile || peer.Partition != nil {
			t.Errorf("the writer offers %+v", peer)
		}
		late := readerOf(t, b, QoS{})
		awaitReaders(t, w, 2)
		pass(time.Second)
		expectXs(t, "a late joiner", late)
		for _, ev := range []*events{r.ep.events, late.ep.events} {
			silent(t, "a reader", ev)
		}
	})
}

// Who names no limits has 8192 samples and, as a reader, 8192 instances; a writer that is
// full waits for a second.
func TestTheLimitsOfWhoNamesNone(t *testing.T) {
	t.Parallel()
	const limit, more = 8192, 10
	virtually(t, func(t *testing.T, d *world) {
		a, b := topicOf[pose](t, d.join("a"), "p"), topicOf[pose](t, d.join("b"), "p")
		w := writerOf(t, a, QoS{Reliability: Reliable, History: KeepAll})
		each := readerOf(t, b, QoS{Depth: 1, MaxSamples: 2 * limit}) // as best effort it holds up nobody
		all := readerOf(t, b, QoS{Reliability: Reliable, History: KeepAll, MaxInstances: 2 * limit})
		awaitReaders(t, w, 2)
		for i := range limit + more {
			write(t, w, poseOf(name(i), float64(i)))
		}
		pass(time.Minute)
		if n := len(each.Take(2 * limit)); n != limit {
			t.Errorf("%d instances, want %d", n, limit)
		}
		if told := told[SampleRejected](each.ep.events); len(told) != more || !errors.Is(told[0].Err, cache.ErrInstances) {
			t.Errorf("told of %d instances too many, want %d", len(told), more)
		}
		if n := len(all.Read(2 * limit)); n != limit {
			t.Errorf("%d samples, want %d", n, limit)
		}
		var err error
		var waited time.Duration
		written := limit + more
		for ; err == nil; written++ {
			began := time.Now()
			err = w.Write(testContext(t), poseOf("r", 0))
			waited = time.Since(began)
		}
		if written-1 != 2*limit || !errors.Is(err, ErrTimeout) || waited != time.Second {
			t.Errorf("%d samples, and after %v: %v; both sides have room for %d", written-1, waited, err, limit)
		}
	})
}

// A policy that is not there is refused by its name in DDS.
func TestARefusedPolicyIsNamed(t *testing.T) {
	topic := topicOf[int](t, join(t, startBroker(t), "a"), "t")
	for policy, q := range map[string]QoS{
		"DURABILITY persistent": {Durability: Persistent},
		"DURABILITY_SERVICE":    {DurabilityService: 2, Durability: TransientLocal},
		"DURABILITY_SERVICE ":   {DurabilityService: 2, Reliability: Reliable, Durability: Transient, History: KeepAll},
		"LATENCY_BUDGET":        {LatencyBudget: time.Millisecond},
		"PRESENTATION":          {CoherentAccess: true},
		"PRESENTATION:":         {OrderedAccess: true},
		"TRANSPORT_PRIORITY":    {TransportPriority: 1},
	} {
		_, asWriter := NewWriter(testContext(t), topic, WithQoS(q))
		_, asReader := NewReader(testContext(t), topic, WithQoS(q))
		for _, err := range []error{asWriter, asReader} {
			if !errors.Is(err, ErrUnsupportedQoS) || !strings.Contains(err.Error(), strings.TrimSpace(policy)) {
				t.Errorf("%s: %v", policy, err)
			}
		}
	}
}

// Only readers bound their instances; a writer would ignore it.
func TestAWriterDoesNotBoundItsInstances(t *testing.T) {
	topic := topicOf[pose](t, join(t, startBroker(t), "a"), "t")
	for _, q := range []QoS{{MaxInstances: 2}, {Reliability: Reliable, History: KeepAll, MaxInstances: 10_000}} {
		if _, err := NewWriter(testContext(t), topic, WithQoS(q)); !errors.Is(err, ErrUnsupportedQoS) || !strings.Contains(err.Error(), "RESOURCE_LIMITS") {
			t.Errorf("%+v: %v", q, err)
		}
		readerOf(t, topic, q)
	}
}

// Nothing leaves a reader for want of time: not what was not read of an instance that is
// over, nor that it was there.
func TestAReaderPurgesNothingByItself(t *testing.T) {
	for end, state := range map[string]InstanceState{"dispose": Disposed, "unregister": NoWriters, "close": NoWriters} {
		t.Run(end, func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) {
				a, b := topicOf[pose](t, d.join("a"), "p"), topicOf[pose](t, d.join("b"), "p")
				w, r := writerOf(t, a, keepAll), readerOf(t, b, keepAll)
				awaitReaders(t, w, 1)
				v := poseOf("r", 1)
				write(t, w, v)
				err := error(nil)
				switch end {
				case "dispose":
					err = w.Dispose(testContext(t), v)
				case "unregister":
					err = w.Unregister(testContext(t), v)
				case "close":
					err = w.Close(testContext(t))
				}
				if err != nil {
					t.Fatal(err)
				}
				pass(time.Hour)
				got := r.Take(9)
				if len(got) != 2 || got[0].Data.X != 1 || got[0].Info.InstanceState != state || got[1].Info.State != state {
					t.Fatalf("an hour later: %+v", got)
				}
				pass(time.Hour)
				again := writerOf(t, a, keepAll)
				awaitReaders(t, again, 1)
				write(t, again, v)
				pass(time.Second)
				got = r.Take(9)
				if len(got) != 1 || got[0].Info.DisposedGeneration+got[0].Info.NoWritersGeneration != 1 || got[0].Info.ViewState != New {
					t.Errorf("an instance that comes back: %+v", got)
				}
			})
		})
	}
}

// Writers and readers each announce the data of their own topic.
func TestTopicDataIsThatOfEachSide(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		unit := func(u string) TopicOption { return WithTopicData(map[string]string{"unit": u}) }
		w := writerOf(t, topicOf[pose](t, d.join("a"), "p", unit("m")), keepAll)
		r := readerOf(t, topicOf[pose](t, d.join("b"), "p", unit("ft")), keepAll)
		awaitReaders(t, w, 1)
		pass(time.Second)
		if at, by := w.Matched(), r.Matched(); len(at) != 1 || at[0].TopicData["unit"] != "ft" || len(by) != 1 || by[0].TopicData["unit"] != "m" {
			t.Errorf("the writer sees %+v, the reader %+v", at, by)
		}
	})
}

func TestPartitionsAreAtMost16(t *testing.T) {
	topic := topicOf[int](t, join(t, startBroker(t), "a"), "t")
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprint("p", i))
	}
	for n, want := range map[int]error{16: nil, 17: ErrInvalid} {
		q := QoS{Partition: many[:n]}
		_, asWriter := NewWriter(testContext(t), topic, WithQoS(q))
		_, asReader := NewReader(testContext(t), topic, WithQoS(q))
		if !errors.Is(asWriter, want) || !errors.Is(asReader, want) {
			t.Errorf("%d partitions: %v, %v", n, asWriter, asReader)
		}
	}
}

// The types of more than 64 fields are compatible with themselves only.
func TestWideTypesAreNotCompared(t *testing.T) {
	wide := func(fields int) discovery.Announcement {
		var all []reflect.StructField
		for i := range fields {
			all = append(all, reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.TypeFor[int]()})
		}
		return discovery.Announcement{Kind: "reader", Schema: uint64(fields), Fields: fieldsOf(reflect.StructOf(all), nil, Msgpack), QoS: discovery.Offer{AllowCompatible: true}}
	}
	for _, c := range []struct {
		a, b int
		want bool
	}{{63, 64, true}, {64, 65, false}, {65, 66, false}, {65, 65, true}} {
		a, b := wide(c.a), wide(c.b)
		if a.Kind = "writer"; (a.Mismatch(&b) == "") != c.want {
			t.Errorf("%d and %d fields: want %v", c.a, c.b, c.want)
		}
	}
}

// There is no entity that waits to be enabled.
func TestAnEntityIsEnabledWhenItIsMade(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		w := writerOf(t, topicOf[int](t, d.join("a"), "t"), QoS{})
		r := readerOf(t, topicOf[int](t, d.join("b"), "t"), QoS{})
		pass(time.Second)
		if len(w.Matched()) != 1 || len(r.Matched()) != 1 || len(told[Matched](w.ep.events)) != 1 || len(told[Matched](r.ep.events)) != 1 {
			t.Error("who has only been made has not matched, or was not told")
		}
	})
}

// A writer that is not told to coalesce sends each sample at once in a message of its own,
// whatever is still on the way.
func TestSamplesGoAloneByDefault(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		b := d.join("b")
		messages := 0
		if _, err := b.SubscribeRaw(testContext(t), Main, []string{"data", "+", "p", "+", "a", "+"}, func(RawMessage) { messages++ }); err != nil {
			t.Fatal(err)
		}
		v := cable.New(d.b.Dial)
		w := writerOf(t, topicOf[pose](t, join(t, "", "a", WithDialer(v.Dial)), "p"), QoS{Reliability: Reliable, History: KeepAll})
		v.HoldReceived()
		for i := range 50 {
			write(t, w, poseOf("r", float64(i)))
		}
		pass(0)
		v.Release()
		pass(time.Second)
		if messages != 50 {
			t.Errorf("50 samples in %d messages", messages)
		}
	})
}
