package pubsub

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"padme/pubsub/internal/discovery"
)

func TestCompatibleTypesAreAllowedOnRequest(t *testing.T) {
	type wider struct {
		Robot string `pubsub:"key"`
		X     float64
		Speed int
	}
	type otherKey struct {
		Robot string
		X     float64 `msgpack:"X"`
		Place string  `pubsub:"key"`
	}
	type otherType struct {
		Robot string `pubsub:"key"`
		X     string
	}
	type nothingInCommon struct{ Z int }
	for _, codec := range []Codec{Msgpack, JSON} {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a, b := d.join("a"), d.join("b")
			option := WithCodec(codec)
			w := writerOf(t, topicOf[pose](t, a, "p", option), keepAll)
			allow := keepAll
			allow.AllowCompatible = true
			same := readerOf(t, topicOf[wider](t, b, "p", option), allow)
			strict := readerOf(t, topicOf[wider](t, b, "p", option), keepAll)
			key := readerOf(t, topicOf[otherKey](t, b, "p", option), allow)
			typ := readerOf(t, topicOf[otherType](t, b, "p", option), allow)
			none := readerOf(t, topicOf[nothingInCommon](t, b, "p", option), allow)
			number := readerOf(t, topicOf[int](t, b, "p", option), allow)
			otherCodec := JSON
			if codec == JSON {
				otherCodec = Msgpack
			}
			encoded := readerOf(t, topicOf[wider](t, b, "p", WithCodec(otherCodec)), allow)
			awaitReaders(t, w, 1)
			write(t, w, pose{Robot: "r", X: 1, Y: 2})
			settle(time.Second)
			if got := same.Take(9); len(got) != 1 || got[0].Data != (wider{"r", 1, 0}) {
				t.Errorf("%s: a compatible type got %+v", codec, got)
			}
			refused := map[GUID]bool{}
			for _, e := range drain(w.ep.events) {
				if i, ok := e.(InconsistentTopic); ok {
					refused[i.Peer] = true
				}
			}
			for what, r := range map[string]struct {
				ev   *events
				guid GUID
				n    int
			}{
				"without the policy": {strict.ep.events, strict.GUID(), len(strict.Take(9))},
				"another key":        {key.ep.events, key.GUID(), len(key.Take(9))},
				"another type":       {typ.ep.events, typ.GUID(), len(typ.Take(9))},
				"nothing in common":  {none.ep.events, none.GUID(), len(none.Take(9))},
				"no struct":          {number.ep.events, number.GUID(), len(number.Take(9))},
				"another codec":      {encoded.ep.events, encoded.GUID(), len(encoded.Take(9))},
			} {
				told := drain(r.ev)
				if len(told) != 1 || told[0] != Event(InconsistentTopic{w.GUID(), "pubsub.pose"}) || !refused[r.guid] || r.n > 0 {
					t.Errorf("%s: %s: the reader was told %+v, the writer %v, %d samples", codec, what, told, refused[r.guid], r.n)
				}
			}
		})
	}
}

func TestPeersSeeEachOthersData(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		q := keepAll
		q.Partition = []string{"x", "y*"}
		topicData := map[string]string{"unit": "m \" ü"}
		w, err := NewWriter(testContext(t), topicOf[pose](t, a, "p", WithTopicData(topicData)), WithQoS(q), WithEndpointData(map[string]string{"role": "lidar"}))
		if err != nil {
			t.Fatal(err)
		}
		q.Partition = []string{"yard"}
		r := newReader(t, topicOf[pose](t, b, "p"), WithQoS(q), WithEndpointData(map[string]string{"role": "map"}))
		awaitReaders(t, w, 1)
		settle(time.Second)
		want := []Peer{{GUID: w.GUID(), Type: "pubsub.pose", Reliability: Reliable, Partition: []string{"x", "y*"}, UserData: map[string]string{"role": "lidar"}, TopicData: topicData}}
		if got := r.Matched(); !reflect.DeepEqual(got, want) {
			t.Errorf("the reader sees %+v", got)
		}
		if got := w.Matched(); len(got) != 1 || got[0].UserData["role"] != "map" || got[0].TopicData != nil || got[0].GUID != r.GUID() {
			t.Errorf("the writer sees %+v", got)
		}
		r.Close()
		settle(time.Second)
		if got := w.Matched(); len(got) > 0 {
			t.Errorf("the writer still sees %+v", got)
		}
		for _, size := range []int{discovery.MaxAnnouncement, discovery.MaxAnnouncement / 5} { // JSON escapes a control character as six
			if _, err := NewWriter(testContext(t), w.topic, WithEndpointData(map[string]string{"": strings.Repeat("\x01", size)})); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	})
}
