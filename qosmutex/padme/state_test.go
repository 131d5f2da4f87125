package padme

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/cockroachdb/datadriven"

	"padme/qosmutex/protocol"
)

// leftOut are the fields that neither belong to a machine's state nor need be the
// same in a clone, each with the reason. A new field fails TestStateNamesEveryField
// until AppendState writes it, or it stands here.
var leftOut = map[string]string{
	"tree.under": "never changes", "queues.maxWaiting": "never changes", "tokens.maxIdle": "never changes", "links.fanout": "never changes",
	"sessions.candidate": "never changes", "sessions.trust": "never changes",
	"Timing.JoinWait": "never changes", "Timing.MoveAfter": "never changes", "Timing.Drift": "never changes",
	"Timing.Heartbeat": "never changes", "Timing.Hop": "never changes",

	"core.now":   "instants are relative to it",
	"queues.any": "its requests are written", "queues.own": "in the order of their Ref",
	"queue.waiting": "in the order of the model",
	"entry.client":  "only reported", "entry.level": "follows from the patience and the priorities", "queues.arrivals": "above those of all requests",
	"queues.tried": "only saves work", "queue.below": "only reported",
	"Entry.Fence": "only reported", "token.holder": "only reported", "tokens.nextDue": "only saves work: the instants that it bounds are written",

	"queues.spare": memory, "link.start": memory, "core.out": memory,
}

// memory is what a clone need not have.
const memory = "memory, kept for reuse or lent"

// wholes are the types of which no field belongs to the state.
var wholes = map[reflect.Type]string{
	reflect.TypeFor[protocol.Config]():   "never changes but for the floors, which are written",
	reflect.TypeFor[protocol.Counters](): "statistics",
	reflect.TypeFor[holder]():            "only reported",
	reflect.TypeFor[protocol.Message]():  "written whole",
}

// TestStateNamesEveryField changes each field of the machines in the scenarios, after
// each step, and demands that the state shows it once: else two machines would look
// the same that are not. Only what leftOut names is free of that. Clones have the same
// in each field.
func TestStateNamesEveryField(t *testing.T) {
	shown := map[string]bool{}
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newWorld()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			for _, line := range strings.Split(d.Input, "\n") {
				if strings.HasPrefix(line, "tree ") || strings.HasPrefix(line, "grow ") {
					w = newWorld()
					w.stepped = func(n *node) { showFields(t, n.machine, w.clock(n), shown) }
				}
				if err := w.do(line); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
			}
			return d.Expected // TestScenarios compares it
		})
	})
	all := map[string]bool{}
	fieldsOf(reflect.TypeFor[Machine](), all, map[reflect.Type]bool{})
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !shown[name] && leftOut[name] == "" {
			t.Errorf("%s showed in no state: write it in AppendState, with a scenario in which it matters, or say in leftOut why not", name)
		}
	}
	for name := range leftOut {
		if !all[name] {
			t.Errorf("there is no %s to leave out", name)
		}
	}
}

// fieldsOf lists the fields of a type and of what it leads to.
func fieldsOf(t reflect.Type, all map[string]bool, known map[reflect.Type]bool) {
	if known[t] || wholes[t] != "" {
		return
	}
	known[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		fieldsOf(t.Elem(), all, known)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name := t.Name() + "." + f.Name
			if wholes[f.Type] != "" {
				continue
			}
			if !isMade(f.Type) || leftOut[name] != "" {
				all[name] = true
			}
			if leftOut[name] == "" {
				fieldsOf(f.Type, all, known)
			}
		}
	}
}

// isMade reports whether a value is nothing but those that it is made of.
func isMade(t reflect.Type) bool { return t.Kind() == reflect.Struct || t.Kind() == reflect.Array }

// field is a field of something in a machine.
type field struct {
	name  string        // of its type
	value reflect.Value // that can be set
}

// part is what fieldsIn must know of a field of a struct.
type part struct {
	name       string
	made, kept bool
}

// parts remembers what fieldsIn has found out, as it is called after each step.
var parts = map[reflect.Type][]part{}

func partsOf(t reflect.Type) []part {
	list, known := parts[t]
	if !known {
		for i := range t.NumField() {
			f := t.Field(i)
			name := t.Name() + "." + f.Name
			list = append(list, part{name, isMade(f.Type), leftOut[name] != memory})
		}
		parts[t] = list
	}
	return list
}

// fieldsIn lists the fields in a machine.
func fieldsIn(m *Machine) (list []field) {
	type object struct { // a link and the peer that it begins with are two
		at unsafe.Pointer
		of reflect.Type
	}
	known := map[object]bool{}
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if o := (object{v.UnsafePointer(), v.Type()}); !v.IsNil() && !known[o] {
				known[o] = true
				walk(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map: // of pointers, which register.all lists as well
		case reflect.Struct:
			if wholes[v.Type()] != "" {
				return
			}
			for i, p := range partsOf(v.Type()) {
				if !p.kept {
					continue
				}
				at := v.Field(i)
				if !p.made {
					at = reflect.NewAt(at.Type(), at.Addr().UnsafePointer()).Elem()
					list = append(list, field{p.name, at})
				}
				walk(at)
			}
		}
	}
	walk(reflect.ValueOf(m))
	return list
}

// showFields compares a machine with its clone and changes, one after another, what
// has not shown in a state yet.
func showFields(t *testing.T, m *Machine, now protocol.Time, shown map[string]bool) {
	c := m.Clone()
	original, list := fieldsIn(m), fieldsIn(c)
	if len(original) != len(list) {
		t.Fatalf("a clone of %d values has %d", len(original), len(list))
	}
	var before []byte
	for i, f := range list {
		if o := original[i]; o.name != f.name || f.name != "link.kept" && !same(o.value, f.value) { // that one may begin later
			t.Fatalf("a clone has %v for %s = %v", f.value, o.name, o.value)
		}
		if shown[f.name] || leftOut[f.name] != "" {
			continue
		}
		if before == nil {
			before = stateOf(c, now)
		}
		old := reflect.ValueOf(f.value.Interface())
		change(f.value)
		shown[f.name] = showsIn(c, now, before)
		f.value.Set(old)
	}
}

// same reports whether two fields agree, but for what they refer to.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer:
		return a.IsNil() == b.IsNil()
	case reflect.Map:
		return a.Len() == b.Len()
	case reflect.Slice:
		plain := a.Type().Elem().Kind() < reflect.Array || a.Type().Elem().Kind() == reflect.String
		return a.Len() == b.Len() && (!plain || a.Len() == 0 || reflect.DeepEqual(a.Interface(), b.Interface()))
	}
	return a.Equal(b)
}

// showsIn reports whether the state is not as before. One that cannot even be written
// is another one.
func showsIn(m *Machine, now protocol.Time, before []byte) (shows bool) {
	defer func() {
		if recover() != nil {
			shows = true
		}
	}()
	return !bytes.Equal(stateOf(m, now), before)
}

// change makes a field another one; what refers to something refers to nothing.
func change(v reflect.Value) {
	switch {
	case v.CanInt():
		v.SetInt(v.Int() + 77)
	case v.CanUint():
		v.SetUint(v.Uint() + 1)
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.String:
		v.SetString(strings.Repeat("z", len(v.String())+1))
	default:
		v.SetZero()
	}
}
