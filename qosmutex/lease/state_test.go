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
	"now":         "instants are relative to it",
	"start":       "only a topic without a record has a use for it",
	"asks":        "a number of requests",
	"nonces":      "a number of nonces",
	"asked.ref":   "a number of requests",
	"asked.at":    "only compared with heard.at, and how they compare is",
	"departed":    "nothing else matters then",
	"born":        "only a topic without a record has a use for it",
	"hearing":     "only a topic without a record has a use for it",
	"declaration": "a pointer: see below",
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
	m.since, m.lastGet, m.echo, m.echoed, m.deadAt = ago, ago, ago, true, ago
	m.heard = heard{true, Version{Counter: 6, Nonce: 49}, ago}
	m.asked = asked{WriteRecord, 7, ago}
	m.pending = pending{Write: Write{Old: m.known.Version, Record: rec, Nonce: 48}, on: true, first: ago, heard: ago, fence: 900}
	m.again, m.leaveBy = m.now+protocol.Second, m.now+protocol.Second
	m.acting = acting{true, m.now + protocol.Second, ago, ago}
	m.spent, m.fence, m.successor, m.dead, m.leaving = 2, 1001, protocol.Node{ID: "B"}, protocol.Node{ID: "C"}, true
	m.declaration = &Declaration{By: "bob"}
	m.other = other{protocol.Claim{Register: 2, Epoch: protocol.Epoch{Number: 2, Tie: 3}, TTL: protocol.Second, Root: true}, m.now + protocol.Second, true}
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
		"that settings are declared": func(m *Machine) { m.declaration = nil },
		"declaration.By":             func(m *Machine) { m.declaration = &Declaration{By: "eve"} },
		"declaration.Settings":       func(m *Machine) { m.declaration = &Declaration{By: "bob", Settings: protocol.Settings{Open: true}} },
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
		{Kind: WriteDone, Ref: 7, Outcome: Conflict, Entry: Entry{Version: Version{Counter: 9, Nonce: 90}, Record: protocol.Record{Term: 9}}},
		{Kind: Echo, Sent: c.now + 5},
		{Kind: SetRank, Rank: 3},
		{Kind: Resign},
	} {
		_ = c.Step(c.now+10, &in, &out)
	}
	if got := stateOf(m, m.now); !bytes.Equal(got, want) {
		t.Error("a step of the clone changed the original")
	}
}

// TestNonsenseIsRefused: whoever is told nonsense says so and goes on as if nothing had
// been said.
func TestNonsenseIsRefused(t *testing.T) {
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
	feed(0, Input{Kind: Echo})
	v := Version{Domain: [16]byte{1}}
	feed(1, Input{Kind: ReadDone, Ref: out.Request.Ref, Entry: Entry{Version: v}, Age: oldest})
	w := out.Request.Write
	feed(2, Input{Kind: WriteDone, Ref: out.Request.Ref, Entry: Entry{Version: Version{v.Domain, 1, w.Nonce}}})
	if out.Appointed == nil {
		t.Fatal("it is not appointed")
	}
	const now = 50 * protocol.Millisecond
	feed(now, Input{Kind: Tick})
	ref := out.Request.Ref
	if out.Request.Kind != WriteRecord {
		t.Fatal("no renewal is under way")
	}
	want := stateOf(m, now)
	for _, in := range []Input{
		{Kind: 99},
		{Kind: ReadDone, Ref: ref},
		{Kind: WriteDone, Ref: ref + 1},
		{Kind: Echo, Sent: now + 1},
		{Kind: Echo, Sent: -1},
		{Kind: SetRank, Rank: -1},
		{Kind: Died},
		{Kind: Died, Node: root},
		{Kind: NameSuccessor},
		{Kind: NameSuccessor, Node: root},
		{Kind: Heard, Version: Version{Domain: [16]byte{2}, Counter: 9}},
		{Kind: Claimed},
		{Kind: Remembered, Term: earliest + 2*hour},
		{Kind: Claimed, Claim: protocol.Claim{Register: 2, Epoch: protocol.Epoch{Number: 9}}},
		{Kind: Claimed, Claim: protocol.Claim{Register: 2, Epoch: protocol.Epoch{Number: 9}, TTL: protocol.MaxTTL + 1}},
		{Kind: Claimed, Claim: protocol.Claim{Register: 2, Epoch: protocol.Epoch{Number: earliest + 2*hour}, TTL: protocol.Second}},
		{Kind: RaiseCeiling, Fence: 1 << 63},
		{Kind: RaiseCeiling, Fence: w.Record.Ceiling + maxRaise + 1},
		{Kind: Propose, Declaration: Declaration{Settings: protocol.Settings{Resources: []string{"\xff"}}}},
		{Kind: Propose, Declaration: Declaration{By: strings.Repeat("x", 1000)}},
	} {
		if err := m.Step(now, &in, &out); err == nil {
			t.Errorf("%+v is taken", in)
		}
		if out.Dismissed || out.Request.Kind != NoRequest || out.Disagreement != nil {
			t.Errorf("%+v has a consequence", in)
		}
		if got := stateOf(m, now); !bytes.Equal(got, want) {
			t.Errorf("%+v changed the state", in)
		}
	}
	if err := m.Step(now-1, &Input{}, &out); err == nil {
		t.Error("time runs backwards")
	}
	in := Input{Kind: WriteDone, Ref: ref, Outcome: Conflict, Entry: Entry{Version: Version{Domain: [16]byte{2}, Counter: 9}}}
	if err := m.Step(now, &in, &out); err == nil || out.Dismissed {
		t.Errorf("of another domain: %v", err)
	}
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
	feed(0, Input{Kind: Echo})
	v := Version{Domain: [16]byte{1}}
	feed(1, Input{Kind: ReadDone, Ref: out.Request.Ref, Entry: Entry{Version: v}})
	w := out.Request.Write
	feed(2, Input{Kind: WriteDone, Ref: out.Request.Ref, Entry: Entry{Version: Version{v.Domain, 1, w.Nonce}}})
	feed(50*protocol.Millisecond, Input{Kind: Tick})
	other := Entry{Version: Version{v.Domain, 2, 1}, Record: w.Record}
	other.Record.Term, other.Record.Root.ID = 2, "B"
	feed(50*protocol.Millisecond, Input{Kind: WriteDone, Ref: out.Request.Ref, Outcome: Conflict, Entry: other})
	if !out.Dismissed || m.Status().Acting {
		t.Error("it acts although the record names another root")
	}
}
