package sim

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"padme/qosmutex/protocol"
)

// laden has something in every slice.
func laden() protocol.Message {
	a, b := protocol.Node{ID: "A", Incarnation: 1}, protocol.Node{ID: "B", Incarnation: 2}
	id := protocol.RequestID{Node: b, Clock: 3}
	return protocol.Message{
		Kind: protocol.KindHandover, From: a, To: b, ID: id, Priority: -4, Resource: "crane", Hold: second,
		Settings: protocol.Settings{Version: 5, Resources: []string{"crane", "lift"}},
		Path:     []protocol.Node{a, b}, Entries: []protocol.Entry{{ID: id, Fence: 6}},
		Tokens:   []protocol.TokenState{{Resource: "crane", Fence: 7}},
		Sessions: []protocol.Node{a},
		Wishes:   []protocol.Wish{{ID: id, Priority: 9}},
		Schedule: []protocol.Scheduled{{Number: 8, ID: id}},
	}
}

// A copy is equal, uses the memory that is there, and shares none with its source.
func TestACopiedMessageIsItsOwn(t *testing.T) {
	src, want := laden(), laden()
	var dst protocol.Message
	copyMessage(&dst, &src)
	for range 2 { // the second time into used memory
		before := dst.Path
		copyMessage(&dst, &src)
		if &before[0] != &dst.Path[0] {
			t.Error("memory is not used again")
		}
	}
	overwrite(t, reflect.ValueOf(&src).Elem())
	if d := cmp.Diff(want, dst); d != "" {
		t.Errorf("(-sent +copied)\n%s", d)
	}
	bare := protocol.Message{Kind: protocol.KindBeat}
	copyMessage(&dst, &bare)
	if len(dst.Path)+len(dst.Entries)+len(dst.Tokens)+len(dst.Sessions)+len(dst.Wishes)+len(dst.Schedule)+len(dst.Settings.Resources) != 0 {
		t.Errorf("what was there before is left: %+v", dst)
	}
}

// overwrite zeroes the elements of every slice in v, however deep, in place.
func overwrite(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			overwrite(t, v.Field(i))
		}
	case reflect.Slice:
		if v.Len() == 0 {
			t.Fatalf("no element in a %v: laden is to have one in every slice", v.Type())
		}
		for i := range v.Len() {
			overwrite(t, v.Index(i))
			v.Index(i).SetZero()
		}
	}
}
