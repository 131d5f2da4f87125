package pubsub

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

type header struct {
	Robot string `pubsub:"key" msgpack:"robot" json:"robot"`
	Site  int8   `pubsub:"key"`
	Tick  int
}

type Middle struct {
	header
	Speed int
}

type position struct {
	Middle
	X int
}

// A key that an embedded struct brings along is one of the sample's, for all that uses it.
func TestKeysOfEmbeddedStructsAreKeys(t *testing.T) {
	type flat struct {
		Robot string `pubsub:"key" msgpack:"robot" json:"robot"`
		Site  int8   `pubsub:"key"`
		X     int
	}
	at := func(i int) position {
		return position{Middle{header{fmt.Sprint("r", i), int8(-i), 5}, 6}, i}
	}
	for _, codec := range []Codec{Msgpack, JSON} {
		inVirtualTime(t, func(t *testing.T, d *domain) {
			a, b := d.join("a"), d.join("b")
			q := QoS{Reliability: Reliable, Durability: TransientLocal}
			topic := topicOf[position](t, a, "p", WithCodec(codec))
			w := writerOf(t, topic, q)
			for i := range 3 {
				write(t, w, at(i))
			}
			theirs := topicOf[position](t, b, "p", WithCodec(codec))
			r := readerOf(t, theirs, q)
			for i, s := range collect(t, r, 3) {
				if want := fmt.Sprintf("r%d,%d", i, -i); s.Info.Key != want || s.Data != at(i) {
					t.Errorf("%s: %+v, want %q", codec, s, want)
				}
			}
			if err := w.Dispose(testContext(t), at(1)); err != nil {
				t.Fatal(err)
			}
			settle(time.Second)
			if got := r.Take(9); len(got) != 1 || got[0].Info.State != Disposed || got[0].Info.Key != "r1,-1" {
				t.Errorf("%s: disposed: %+v", codec, got)
			}
			var only position
			if body, _, err := topic.encodeKey(at(1)); err != nil || codec.decode(body, &only) != nil || only != (position{Middle: Middle{header: header{Robot: "r1", Site: -1}}}) {
				t.Errorf("%s: a disposal names %+v, %v", codec, only, err)
			}
			r.Close()
			settle(time.Second)
			for _, option := range []EndpointOption{WithInstance(at(2)), selected(t, "robot = 'r2' AND Site = 2")} {
				r := newReader(t, theirs, WithQoS(q), option)
				if got := b.exchange.data.Filters(); len(got) != 1 || !strings.Contains(got[0], "/data/default/p/r2,") {
					t.Errorf("%s: subscribed to %q", codec, got)
				}
				r.Close()
				settle(time.Second)
			}
			allow := q
			allow.AllowCompatible = true
			other := readerOf(t, topicOf[flat](t, b, "p", WithCodec(codec)), allow)
			settle(time.Second)
			if got := other.Take(9); len(got) != 3 || got[0].Data != (flat{"r0", 0, 0}) {
				t.Errorf("%s: the same fields without embedding: %+v", codec, got)
			}
		})
	}
}

// Which fields are keys is part of a type, wherever they are.
func TestAKeyInAnEmbeddedStructChangesTheSchema(t *testing.T) {
	type hidden struct{ Robot string }
	type keyed struct {
		Robot string `pubsub:"key"`
	}
	type with struct{ keyed }
	type without struct{ hidden }
	if schemaHash(reflect.TypeFor[with](), JSON) == schemaHash(reflect.TypeFor[without](), JSON) {
		t.Error("the schema does not tell them apart")
	}
}

type Keyed struct {
	Robot string `pubsub:"key"`
}

type tree struct {
	Name  string `pubsub:"key"`
	Nodes []*tree
	By    map[string]tree
}

type knot struct{ Rings []*ring }

type ring struct {
	Knot *knot
	Name string `pubsub:"key"`
}

// A tag that has no effect is refused, with what to do.
func TestAKeyThatCannotCountIsRefused(t *testing.T) {
	type wrong struct {
		A int `pubsub:"kye"`
	}
	type float struct {
		A float64 `pubsub:"key"`
	}
	type secret struct {
		a int `pubsub:"key"`
	}
	both := []Codec{Msgpack, JSON}
	for _, c := range []struct {
		of     reflect.Type
		codecs []Codec
		want   string
	}{
		{reflect.TypeFor[struct{ wrong }](), both, `wrong.A has the tag pubsub:"kye"`},
		{reflect.TypeFor[struct{ float }](), both, "float.A is a float64"},
		{reflect.TypeFor[struct{ secret }](), both, "secret.a is not exported"},
		{reflect.TypeFor[struct{ In []wrong }](), both, `wrong.A has the tag pubsub:"kye"`},
		{reflect.TypeFor[struct{ *Keyed }](), both, "embed pubsub.Keyed by value"},
		{reflect.TypeFor[struct{ In Keyed }](), both, `.In`},
		{reflect.TypeFor[struct{ In *Keyed }](), both, "pubsub.Keyed.Robot"},
		{reflect.TypeFor[struct{ In []Keyed }](), both, `tag`},
		{reflect.TypeFor[struct{ In [2]Keyed }](), both, `pubsub:"-"`},
		{reflect.TypeFor[struct{ In map[string]Keyed }](), both, "pubsub.Keyed.Robot"},
		{reflect.TypeFor[struct{ In map[Keyed]string }](), []Codec{Msgpack}, "pubsub.Keyed.Robot"},
		{reflect.TypeFor[struct{ In struct{ In Keyed } }](), both, "pubsub.Keyed.Robot"},
		{reflect.TypeFor[*Keyed](), both, "pubsub.Keyed.Robot"},
		{reflect.TypeFor[[]Keyed](), both, "make pubsub.Keyed the topic's type"},
		{reflect.TypeFor[knot](), both, "pubsub.ring.Name"},
		{reflect.TypeFor[struct {
			Keyed `json:"h"`
		}](), []Codec{JSON}, "pubsub.Keyed.Robot"},
		{reflect.TypeFor[struct {
			Keyed `msgpack:",noinline"`
		}](), []Codec{Msgpack}, "pubsub.Keyed.Robot"},
		{reflect.TypeFor[struct {
			Robot string
			Keyed
		}](), both, "pubsub.Keyed.Robot"},
	} {
		for _, codec := range c.codecs {
			if _, err := keyFields(c.of, codec); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", c.of, codec, err, c.want)
			}
		}
	}
	type reading struct{ At keyedText }
	for _, codec := range both { // its fields are not on the wire
		if keys, err := keyFields(reflect.TypeFor[reading](), codec); err != nil || len(keys) > 0 {
			t.Errorf("%s: a field that writes itself: %v, %v", codec, keys, err)
		}
	}
	p := join(t, startBroker(t), "a")
	if _, err := NewTopic[struct{ In Keyed }](p, "x"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), `tag field struct { In pubsub.Keyed }.In pubsub:"-"`) {
		t.Errorf("NewTopic: %v", err)
	}
	_ = secret{}.a
}

func TestKeysThatCountAreTaken(t *testing.T) {
	type apart struct {
		Name  string  `pubsub:"key"`
		Other []Keyed `pubsub:"-"`
	}
	type leftOut struct {
		Name  string `pubsub:"key"`
		cache map[string]Keyed
		Other []Keyed `json:"-" msgpack:"-"`
	}
	type named struct {
		Keyed `msgpack:"h"` // which msgpack writes as if it had no name
	}
	for _, c := range []struct {
		of     reflect.Type
		codecs []Codec
		keys   [][]int
	}{
		{reflect.TypeFor[tree](), []Codec{Msgpack, JSON}, [][]int{{0}}},
		{reflect.TypeFor[ring](), []Codec{Msgpack, JSON}, [][]int{{1}}},
		{reflect.TypeFor[apart](), []Codec{Msgpack, JSON}, [][]int{{0}}},
		{reflect.TypeFor[leftOut](), []Codec{Msgpack, JSON}, [][]int{{0}}},
		{reflect.TypeFor[named](), []Codec{Msgpack, JSON}, [][]int{{0, 0}}},
		{reflect.TypeFor[position](), []Codec{Msgpack, JSON}, [][]int{{0, 0, 0}, {0, 0, 1}}},
		{reflect.TypeFor[*int](), []Codec{Msgpack, JSON}, nil},
	} {
		for _, codec := range c.codecs {
			if keys, err := keyFields(c.of, codec); err != nil || !reflect.DeepEqual(keys, c.keys) {
				t.Errorf("%s, %s: %v, %v", c.of, codec, keys, err)
			}
		}
	}
	_ = leftOut{}.cache
}

// keyedText writes itself, and has a key where it is a topic's type.
type keyedText struct {
	ID string `pubsub:"key"`
}

func (k keyedText) MarshalText() ([]byte, error)     { return []byte(k.ID), nil }
func (k *keyedText) UnmarshalText(text []byte) error { k.ID = string(text); return nil }
