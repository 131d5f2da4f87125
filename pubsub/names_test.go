package pubsub

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

type Head struct {
	ID    string
	State int
}

type Foot struct{ State string }

type Both struct {
	Head
	Foot
}

type shadows struct {
	Head
	State bool
}

type shadowsPointer struct {
	*Head
	State string
}

type shadowsLater struct {
	State bool
	Head
}

type sameTag struct {
	A int `json:"B" msgpack:"x"`
	B int `msgpack:"x"`
}

// sameJSONTag is what go vet would not let pass as a declaration.
func sameJSONTag() reflect.Type {
	number := reflect.TypeFor[int]()
	return reflect.StructOf([]reflect.StructField{{Name: "A", Type: number, Tag: `json:"x"`}, {Name: "B", Type: number, Tag: `json:"x"`}})
}

type nameOfEmbedded struct {
	Head
	Other string `msgpack:"Head"`
}

type nameOfLaterEmbedded struct {
	Other string `msgpack:"Head"`
	Head
}

type inlined struct {
	State bool
	Head  `msgpack:",inline"`
}

type alias struct {
	A int `msgpack:",alias:x"`
	X int `msgpack:"x"`
}

type leavesOut struct {
	Head  `json:"-" msgpack:"-"`
	State bool
}

type leavesOutItsOwn struct {
	Head
	State bool `json:"-" msgpack:"-"`
}

type apartByName struct {
	Head  `json:"head" msgpack:",noinline"`
	State bool
}

type hiddenTwice struct {
	Head
	Foot
	State bool
}

type SelfEmbedded struct {
	*SelfEmbedded
	X int
}

type withTime struct {
	time.Time
	Text string
}

type namesOwn struct{ shadows }

func (namesOwn) MarshalText() ([]byte, error)  { return nil, nil }
func (*namesOwn) UnmarshalText(_ []byte) error { return nil }

type namesRecursive struct {
	Next *namesRecursive
	All  map[string][]namesRecursive
	Head
}

// Two fields of one name cost all samples, or a value, so NewTopic refuses their type.
func TestTwoFieldsOfOneNameAreRefused(t *testing.T) {
	printed := captureLog(t)
	both := []Codec{Msgpack, JSON}
	for _, c := range []struct {
		of     reflect.Type
		codecs []Codec
		want   string
	}{
		{reflect.TypeFor[shadows](), []Codec{Msgpack}, `fields pubsub.Head.State and pubsub.shadows.State are both "State" as msgpack writes them: rename one, or tag it msgpack:"-"`},
		{reflect.TypeFor[shadowsPointer](), []Codec{Msgpack}, "pubsub.Head.State and pubsub.shadowsPointer.State"},
		{reflect.TypeFor[sameTag](), []Codec{Msgpack}, `fields pubsub.sameTag.A and pubsub.sameTag.B are both "x" as msgpack writes them`},
		{reflect.TypeFor[sameTag](), []Codec{JSON}, `fields pubsub.sameTag.A and pubsub.sameTag.B are both "B" as json writes them: rename one, or tag it json:"-"`},
		{sameJSONTag(), []Codec{JSON}, `.A and `},
		{reflect.TypeFor[nameOfLaterEmbedded](), []Codec{Msgpack}, "pubsub.nameOfLaterEmbedded.Other and pubsub.nameOfLaterEmbedded.Head"},
		{reflect.TypeFor[inlined](), []Codec{Msgpack}, "pubsub.inlined.State and pubsub.Head.State"},
		{reflect.TypeFor[Both](), []Codec{JSON}, "pubsub.Head.State and pubsub.Foot.State"},
		{reflect.TypeFor[struct{ In shadows }](), []Codec{Msgpack}, "pubsub.shadows.State"},
		{reflect.TypeFor[struct{ In *sameTag }](), both, "pubsub.sameTag.B"},
		{reflect.TypeFor[struct{ In []sameTag }](), both, "pubsub.sameTag.B"},
		{reflect.TypeFor[struct{ In [2]sameTag }](), both, "pubsub.sameTag.B"},
		{reflect.TypeFor[struct{ In map[string]sameTag }](), both, "pubsub.sameTag.B"},
		{reflect.TypeFor[map[sameTag]int](), []Codec{Msgpack}, "pubsub.sameTag.B"},
		{reflect.TypeFor[[]*sameTag](), both, "pubsub.sameTag.B"},
		{reflect.TypeFor[struct{ In struct{ In sameTag } }](), both, "pubsub.sameTag.B"},
		{reflect.TypeFor[struct{ Apart struct{ sameTag } }](), both, "pubsub.sameTag.B"},
		{reflect.TypeFor[SelfEmbedded](), []Codec{Msgpack}, "pubsub.SelfEmbedded embeds itself"},
	} {
		for _, codec := range c.codecs {
			if err := checkNames(c.of, codec); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", c.of, codec, err, c.want)
			}
		}
	}
	p := join(t, startBroker(t), "a")
	if _, err := NewTopic[shadows](p, "x"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "pubsub.Head.State") {
		t.Errorf("NewTopic: %v", err)
	}
	if _, err := NewTopic[Both](p, "x", WithCodec(JSON)); !errors.Is(err, ErrInvalid) {
		t.Errorf("NewTopic: %v", err)
	}
	if _, err := NewTopic[shadows](p, "x", WithCodec(JSON)); err != nil {
		t.Errorf("what JSON writes by the rules of Go: %v", err)
	}
	if printed.Len() > 0 {
		t.Errorf("printed %s", printed)
	}
}

// The names of fields are those that each codec really writes, what comes back is what was
// written, and no type is refused of which that is so.
func TestNamesAreThoseThatTheCodecWrites(t *testing.T) {
	captureLog(t)
	head := Head{"i", 7}
	for _, v := range []any{
		head,
		Both{head, Foot{"s"}},
		shadows{head, true},
		shadowsLater{true, head},
		sameTag{1, 2},
		nameOfEmbedded{head, "o"},
		nameOfLaterEmbedded{"o", head},
		inlined{true, head},
		alias{1, 2},
		leavesOut{State: true},
		leavesOutItsOwn{Head: head},
		apartByName{head, true},
		hiddenTwice{head, Foot{"s"}, true},
		namesRecursive{Head: head},
		position{X: 1},
		struct {
			Both
			Head int
		}{Both{head, Foot{"s"}}, 1},
	} {
		of := reflect.TypeOf(v)
		for _, codec := range []Codec{Msgpack, JSON} {
			written, same := roundTripOf(t, v, codec)
			err := checkNames(of, codec)
			if same == (err != nil) && !hides(of, codec) {
				t.Errorf("%s, %s: %v, wrote %v, the same after reading: %v", of, codec, err, written, same)
			}
			if err != nil {
				continue
			}
			fields, _ := wireFields(of, codec)
			if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, written) {
				t.Errorf("%s, %s: fields %q, wrote %q", of, codec, got, written)
			}
		}
	}
}

// Pointers are followed; the library leaves a goroutine behind if it reads one embedded.
func TestNamesOfAnEmbeddedPointer(t *testing.T) {
	type points struct{ *shadowsLater }
	for codec, want := range map[Codec][]string{Msgpack: {"Head", "State"}, JSON: {"ID", "State"}} {
		fields, _ := wireFields(reflect.TypeFor[points](), codec)
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
			t.Errorf("%s: %q", codec, got)
		}
		body, _, err := codec.encode(points{&shadowsLater{}})
		if err != nil {
			t.Fatal(err)
		}
		v, err := codec.decodeAny(body)
		if fields, ok := v.(map[string]any); err != nil || !ok || !slices.Equal(slices.Sorted(maps.Keys(fields)), want) {
			t.Errorf("%s wrote %v, %v", codec, v, err)
		}
	}
}

// captureLog collects what is printed on the global logger.
func captureLog(t *testing.T) *bytes.Buffer {
	was, printed := log.Writer(), &bytes.Buffer{}
	log.SetOutput(printed)
	t.Cleanup(func() { log.SetOutput(was) })
	return printed
}

// hides reports whether a codec leaves out a field that another one hides by Go's rules.
func hides(of reflect.Type, codec Codec) bool {
	return codec == JSON && slices.Contains([]string{"shadows", "shadowsLater", "inlined", "hiddenTwice"}, of.Name())
}

func roundTripOf(t *testing.T, v any, codec Codec) (names []string, same bool) {
	body, _, err := codec.encode(v)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	out := reflect.New(reflect.TypeOf(v))
	if codec == JSON {
		if err := json.Unmarshal(body, &fields); err != nil {
			t.Fatal(err)
		}
		err = json.Unmarshal(body, out.Interface())
	} else {
		if err := msgpack.Unmarshal(body, &fields); err != nil {
			t.Fatal(err)
		}
		err = msgpack.Unmarshal(body, out.Interface())
	}
	return slices.Sorted(maps.Keys(fields)), err == nil && reflect.DeepEqual(out.Elem().Interface(), v)
}

// What is written without a conflict, in a form of its own or not at all has names enough.
func TestDistinctNamesAreTaken(t *testing.T) {
	type hidden struct {
		other shadows
		Skip  sameTag `json:"-" msgpack:"-"`
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[shadowsLater](), reflect.TypeFor[leavesOut](), reflect.TypeFor[leavesOutItsOwn](), reflect.TypeFor[apartByName](),
		reflect.TypeFor[withTime](), reflect.TypeFor[namesOwn](), reflect.TypeFor[struct{ O []namesOwn }](), reflect.TypeFor[namesRecursive](), reflect.TypeFor[hidden](), reflect.TypeFor[any](),
	} {
		for _, codec := range []Codec{Msgpack, JSON} {
			if err := checkNames(of, codec); err != nil {
				t.Errorf("%s, %s: %v", of, codec, err)
			}
		}
	}
	_ = hidden{}.other
}
