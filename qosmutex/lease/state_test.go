package lease

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"padme/qosmutex/canonical"
	"padme/qosmutex/protocol"
)

// unnamed are the fields of a machine that are not in its state, and why.
var unnamed = map[string]string{
	"now":      "instants are relative to it",
	"start":    "only a topic without a record has a use for it",
	"nonces":   "a number of nonces",
	"asked.at": "only compared with heard.at, and how they compare is",
	"departed": "nothing else matters then",
	"born":     "only a topic without a record has a use for it",
	"hearing":  "only a topic without a record has a use for it",
	"wanted":   "a pointer: see below",
}

// busy is a machine in which every part is in use. No correct machine is like it. Of
// nonces only matters which are equal, so each is one less than another.
func busy() *Machine {
	rec := protocol.Record{
		Term: 3, Root: protocol.Node{ID: "A", Incarnation: 1}, Lease: 1000 * protocol.Millisecond, TTL: 2000 * protocol.Millisecond, Ceiling: 1000,
		Settings: protocol.Settings{Version: 1, Resources: []string{"x"}},
	}
	m := &Machine{
		cfg: Config{Self: rec.Root, Drift: 0.1, FirstTerm: 1}, now: 10 * protocol.Second, began: true, read: true,
		known: Entry{Version{Counter: 5, Nonce: 50}, rec},
	}
	ago := m.now - 100*protocol.Millisecond
	m.since, m.lastGet, m.echo, m.deadAt = ago, ago, ago, ago
	m.heard = heard{true, Version{Counter: 6, Nonce: 49}, ago}
	m.asked = asked{WriteRecord, ago}
	m.pending = pending{Write: Write{Old: m.known.Version, Record: rec, Nonce: 48}, on: true, first: ago, heard: ago, fence: 900}
	m.again, m.leaveBy = m.now+protocol.Second, m.now+protocol.Second
	m.acting = acting{true, m.now + protocol.Second, ago, ago}
	m.spent, m.fence, m.successor, m.dead, m.leaving = 2, 1001, protocol.Node{ID: "B"}, protocol.Node{ID: "C"}, true
	m.wanted = &protocol.Settings{}
	m.other = other{protocol.Claim{Register: 2, Epoch: protocol.Epoch{Number: 2, Tie: 3}, TTL: protocol.Second, Root: true}, m.now + protocol.Second}
	return m
}

// stateOf is a state with every number as it is.
func stateOf(m *Machine, now protocol.Time) []byte {
	n := &canonical.Names{}
	for s := range n.Slack {
		n.Slack[s] = 1 << 62
	}
	n.Reset()
	return n.AppendNames(m.AppendState(nil, now, n))
}

// TestStateNamesEveryField changes one field after the other, and sees it in the form.
func TestStateNamesEveryField(t *testing.T) {
	form := func(m *Machine) []byte { return stateOf(m, m.now) }
	want := form(busy())
	var visit func(path string, at func(*Machine) reflect.Value)
	seen := 0
	visit = func(path string, at func(*Machine) reflect.Value) {
		if _, skip := unnamed[path]; skip || strings.HasPrefix(path, "cfg.") && path != "cfg.Rank" {
			return
		}
		m := busy()
		v := at(m)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if path != "" {
					name = path + "." + name
				}
				visit(name, func(m *Machine) reflect.Value { return at(m).Field(i) })
			}
			return
		case reflect.Array, reflect.Slice:
			visit(path+"[]", func(m *Machine) reflect.Value { return at(m).Index(0) })
			return
		}
		v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // also of what is not exported
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + int64(protocol.Millisecond))
		case reflect.Uint8, reflect.Uint64:
			v.SetUint(v.Uint() + 1)
		case reflect.String:
			v.SetString(v.String() + "'")
		default:
			t.Fatalf("%s is a %v", path, v.Kind())
		}
		if seen++; bytes.Equal(form(m), want) {
			t.Errorf("%s is not in the state", path)
		}
	}
	visit("", func(m *Machine) reflect.Value { return reflect.ValueOf(m).Elem() })
	for what, change := range map[string]func(*Machine){
		"that models are wanted": func(m *Machine) { m.wanted = nil },
		"the models":             func(m *Machine) { m.wanted = &protocol.Settings{Models: protocol.Models{Priority: protocol.Fair}} },
	} {
		m := busy()
		if change(m); bytes.Equal(form(m), want) {
			t.Errorf("%s is not in the state", what)
		}
	}
	if seen < 60 {
		t.Errorf("%d fields were changed", seen)
	}
}

// TestCloneSharesNothing steps a clone, and sees that the original stays.
func TestCloneSharesNothing(t *testing.T) {
	m := busy()
	want := stateOf(m, m.now)
	c := m.Clone()
	if got := stateOf(c, c.now); !bytes.Equal(got, want) {
		t.Error("a clone is not like the original")
	}
	var out Output
	for _, in := range []Input{
		{Answer: &Answer{Outcome: Conflict, Entry: Entry{Version: Version{Counter: 9, Nonce: 90}, Record: protocol.Record{Term: 9}}}},
		{Said: &protocol.Output{Echo: c.now + 5, Renewal: protocol.Renewal{Counter: 10}, Rank: 3, Claim: protocol.Claim{Register: 1}}},
		{Resign: true},
	} {
		_ = c.Step(c.now+10, &in, &out)
	}
	if got := stateOf(m, m.now); !bytes.Equal(got, want) {
		t.Error("a step of the clone changed the original")
	}
}

// TestNonsenseIsRefused: whoever is told nonsense goes on as if nothing had been said.
func TestNonsenseIsRefused(t *testing.T) {
	m, ceiling := renewing(t)
	var out Output
	const now = 50 * protocol.Millisecond
	want := stateOf(m, now)
	other := func(c protocol.Claim) Input {
		c.Register, c.Root = 2, true
		return Input{Said: &protocol.Output{Claim: c}}
	}
	for _, in := range []Input{
		{Said: &protocol.Output{Echo: now + 1}},
		{Said: &protocol.Output{Echo: -1}},
		{Said: &protocol.Output{Renewal: protocol.Renewal{Counter: 9}}},
		{Said: &protocol.Output{Renewal: protocol.Renewal{Counter: 9}, Claim: protocol.Claim{Register: 2}}},
		{Said: &protocol.Output{Remembered: earliest + 2*hour}},
		{Said: &protocol.Output{WantCeiling: 1 << 63}},
		{Said: &protocol.Output{WantCeiling: ceiling + maxRaise + 1}},
		{Died: m.cfg.Self},
		{Successor: m.cfg.Self},
		other(protocol.Claim{Epoch: protocol.Epoch{Number: 9}}),
		other(protocol.Claim{Epoch: protocol.Epoch{Number: 9}, TTL: protocol.MaxTTL + 1}),
		other(protocol.Claim{Epoch: protocol.Epoch{Number: earliest + 2*hour}, TTL: protocol.Second}),
	} {
		if err := m.Step(now, &in, &out); err != nil || len(out.Tell) > 0 || out.Request.Kind != NoRequest {
			t.Errorf("%+v has a consequence: %v", in, err)
		}
		if got := stateOf(m, now); !bytes.Equal(got, want) {
			t.Errorf("%+v changed the state", in)
		}
	}
	in := Input{Answer: &Answer{Outcome: Conflict, Entry: Entry{Version: Version{Domain: [16]byte{2}, Counter: 9}}}}
	if err := m.Step(now, &in, &out); err == nil || len(out.Tell) > 0 {
		t.Errorf("of another domain: %v", err)
	}
	if err := m.Step(now, &Input{Answer: &Answer{}}, &out); err == nil || len(out.Tell) > 0 {
		t.Errorf("an answer to nothing: %v", err)
	}
}

// renewing is a root, and the ceiling of its record, whose renewal is under way after 50 ms.
func renewing(t *testing.T) (*Machine, uint64) {
	t.Helper()
	root := protocol.Node{ID: "A", Incarnation: 1}
	m, err := New(Config{Self: root, Create: true, Wall: earliest, Lease: 100 * protocol.Millisecond, TTL: protocol.Second, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var out Output
	feed := func(now protocol.Time, in Input) {
		t.Helper()
		if err := m.Step(now, &in, &out); err != nil {
			t.Fatal(err)
		}
	}
	feed(1, Input{Said: &protocol.Output{Echo: 1}})
	v := Version{Domain: [16]byte{1}}
	feed(1, Input{Answer: &Answer{Entry: Entry{Version: v}, Age: oldest}})
	w := out.Request.Write
	feed(2, Input{Answer: &Answer{Entry: Entry{Version: Version{v.Domain, 1, w.Nonce}}}})
	if !m.Status().Acting {
		t.Fatal("it is not appointed")
	}
	feed(50*protocol.Millisecond, Input{})
	if !out.Request.Write.Renewal {
		t.Fatal("no renewal is under way")
	}
	return m, w.Record.Ceiling
}

func TestConfigurations(t *testing.T) {
	good := Config{Self: protocol.Node{ID: "A"}, Create: true, Wall: earliest, Lease: 100 * protocol.Millisecond, TTL: protocol.Second}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"Self is empty":          func(c *Config) { c.Self.ID = "" },
		"drift 0.3":              func(c *Config) { c.Drift = 0.3 },
		"rank -1":                func(c *Config) { c.Rank = -1 },
		"is before 2026: set it": func(c *Config) { c.Wall = 1 },
		"lease of 600000000 ns":  func(c *Config) { c.Lease *= 6 },
		"lease of 0 ns":          func(c *Config) { c.Lease = 0 },
		"TTL of 0 ns":            func(c *Config) { c.TTL = 0 },
		"fence ceiling":          func(c *Config) { c.Wall = 1 << 62 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestSettingsOfANewRegister: members of a topic whose register was lost know the settings of
// the old record, and go by the version.
func TestSettingsOfANewRegister(t *testing.T) {
	before, _ := renewing(t)
	was := before.known.Record.Settings
	for range 3 { // they were changed
		was.Version++
	}
	c := before.cfg
	c.Wall += uint64(protocol.Second / protocol.Microsecond)
	if is := c.record(c.Wall).Settings; is.Version <= was.Version {
		t.Errorf("the settings of a later record have version %d, those of the lost one %d", is.Version, was.Version)
	}
}

// TestNoncesDiffer: also of runs whose seeds are neighbors.
func TestNoncesDiffer(t *testing.T) {
	var all []uint64
	for seed := range uint64(100) {
		m := Machine{cfg: Config{Seed: seed}}
		for range 1000 {
			all = append(all, m.nonce())
		}
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 100_000 {
		t.Errorf("%d of 100000 nonces differ", n)
	}
}

// TestConflictEndsTheTerm: a root that finds another one in the record stops at once,
// and does not wait for the end of its lease.
func TestConflictEndsTheTerm(t *testing.T) {
	m, _ := renewing(t)
	other := Entry{Version: Version{[16]byte{1}, 2, 1}, Record: m.known.Record}
	other.Record.Term, other.Record.Root.ID = 2, "B"
	var out Output
	if err := m.Step(50*protocol.Millisecond, &Input{Answer: &Answer{Outcome: Conflict, Entry: other}}, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Tell) != 1 || out.Tell[0].Kind != protocol.Dismissed || m.Status().Acting {
		t.Error("it acts although the record names another root")
	}
}
