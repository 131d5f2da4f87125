package pubsub

import (
	"errors"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"
)

type inner struct {
	Depth int
	Done  chan int
}

type embeds struct {
	inner
	Name string
}

type recursive struct {
	Next *recursive
	By   map[string][]recursive
	Any  any
	Err  error
}

type own struct{ f func() }

func (own) MarshalText() ([]byte, error) { return []byte("own"), nil }

// What no Write can write is said when the topic is made, with the field's name.
func TestNewTopicNamesWhatCannotBeWritten(t *testing.T) {
	both := []Codec{Msgpack, JSON}
	type tagged struct {
		Hook func() `json:"-"`
	}
	type addresses struct{ At uintptr }
	for _, c := range []struct {
		of     reflect.Type
		codecs []Codec
		want   string
	}{
		{reflect.TypeFor[func()](), both, "samples of type func() have a func"},
		{reflect.TypeFor[[]chan int](), both, "samples of type []chan int have a chan"},
		{reflect.TypeFor[struct{ Hook func() }](), both, ".Hook is or has a func"},
		{reflect.TypeFor[struct{ C complex128 }](), both, ".C is or has a complex128"},
		{reflect.TypeFor[struct{ P unsafe.Pointer }](), both, ".P is or has a unsafe.Pointer"},
		{reflect.TypeFor[struct{ In []inner }](), both, "pubsub.inner.Done is or has a chan"},
		{reflect.TypeFor[struct{ In map[string]*inner }](), both, "pubsub.inner.Done is or has a chan"},
		{reflect.TypeFor[embeds](), both, "pubsub.inner.Done is or has a chan"},
		{reflect.TypeFor[tagged](), []Codec{Msgpack}, `pubsub.tagged.Hook is or has a func, which msgpack cannot write: leave it out, or tag it msgpack:"-"`},
		{reflect.TypeFor[addresses](), []Codec{Msgpack}, "pubsub.addresses.At is or has a uintptr"},
	} {
		for _, codec := range c.codecs {
			if err := checkWritable(c.of, codec); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", c.of, codec, err, c.want)
			}
		}
	}
	p := join(t, startBroker(t), "a")
	if _, err := NewTopic[inner](p, "x"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "pubsub.inner.Done") {
		t.Errorf("NewTopic: %v", err)
	}
	if _, err := NewTopic[tagged](p, "x", WithCodec(JSON)); err != nil {
		t.Errorf("a field that JSON leaves out: %v", err)
	}
}

// What is written in a form of its own, or not at all, may have anything inside.
func TestNewTopicTakesWhatCanBeWritten(t *testing.T) {
	type hidden struct {
		f    func()
		Name string
		Hook func() `json:"-" msgpack:"-"`
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[recursive](), reflect.TypeFor[own](), reflect.TypeFor[*own](), reflect.TypeFor[hidden](), reflect.TypeFor[any](),
		reflect.TypeFor[struct{ At time.Time }](), reflect.TypeFor[struct{ N *big.Int }](), reflect.TypeFor[struct{ O []own }](),
	} {
		for _, codec := range []Codec{Msgpack, JSON} {
			if err := checkWritable(of, codec); err != nil {
				t.Errorf("%s, %s: %v", of, codec, err)
			}
		}
	}
	_, _ = own{}.f, hidden{}.f
}

// What is refused cannot be written indeed, and what is not can.
func TestRefusedKindsCannotBeWritten(t *testing.T) {
	for _, v := range []any{struct{ F func() }{func() {}}, struct{ C chan int }{make(chan int)}, struct{ C complex64 }{}, own{}, recursive{}, embeds{}, struct{ U uintptr }{}} {
		for _, codec := range []Codec{Msgpack, JSON} {
			failed := func() (failed bool) {
				defer func() { failed = recover() != nil || failed }()
				_, _, err := codec.encode(v)
				return err != nil
			}()
			if refused := checkWritable(reflect.TypeOf(v), codec) != nil; refused != failed {
				t.Errorf("%T, %s: refused is %v, that it cannot be written is %v", v, codec, refused, failed)
			}
		}
	}
}
