package candidate

import (
	"testing"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// driver is a candidate alone with a register that answers at once.
type driver struct {
	*Machine
	t     *testing.T
	now   protocol.Time
	out   protocol.Output
	entry lease.Entry
	born  protocol.Time      // of the register
	inbox []protocol.Message // to itself
	in    []protocol.Granted
	sent  []protocol.Message // to others
	away  bool               // the register does not answer
}

const wall = 1_780_272_000 * 1_000_000

// start makes a candidate and lets a second pass.
func start(t *testing.T, cfg Config, fresh bool) *driver {
	t.Helper()
	d := firstStep(t, cfg, fresh)
	d.until(d.now + protocol.Second)
	return d
}

func firstStep(t *testing.T, cfg Config, fresh bool) *driver {
	t.Helper()
	return with(t, cfg, fresh, lease.Entry{Version: lease.Version{Domain: [16]byte{1}}}, 1)
}

// with makes a candidate of a register that has e.
func with(t *testing.T, cfg Config, fresh bool, e lease.Entry, incarnation uint64) *driver {
	t.Helper()
	cfg.Protocol.Self = protocol.Node{ID: "A", Incarnation: incarnation}
	cfg.Protocol.Timing = protocol.LAN()
	cfg.Protocol.Settings = protocol.Settings{Resources: []string{"x"}}
	cfg.Lease.Create, cfg.Lease.Wall, cfg.Lease.Seed = true, wall, incarnation
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{Machine: m, t: t, now: 1000 * protocol.Second, entry: e}
	d.born = d.now - protocol.MaxTTL
	if fresh {
		d.born = d.now
	}
	d.step(protocol.Input{Kind: protocol.Tick})
	return d
}

// step feeds an input and does what the contract demands.
func (d *driver) step(in protocol.Input) {
	d.t.Helper()
	if err := d.Step(d.now, &in, &d.out); err != nil {
		d.t.Fatalf("input of kind %d: %v", in.Kind, err)
	}
	d.follow()
}

func (d *driver) follow() {
	d.t.Helper()
	d.in = append(d.in, d.out.Grants...)
	for i := range d.out.Messages {
		if msg := d.out.Messages[i]; msg.To == d.Self() {
			d.inbox = append(d.inbox, msg)
		} else {
			d.sent = append(d.sent, msg)
		}
	}
	if err := d.CheckInvariants(); err != nil {
		d.t.Fatal(err)
	}
	switch r := d.Request(); {
	case d.out.WakeAt <= d.now:
		if r.Kind != lease.NoRequest {
			d.t.Fatal("it asks before it has said to itself what it has to say")
		}
		d.step(protocol.Input{Kind: protocol.Tick})
	case r.Kind != lease.NoRequest:
		if err := d.Answer(d.now, d.serve(&r), &d.out); err != nil {
			d.t.Fatal(err)
		}
		d.follow()
	case len(d.inbox) > 0:
		msg := d.inbox[0]
		d.inbox = d.inbox[1:]
		d.step(protocol.Input{Kind: protocol.Receive, Message: &msg})
	}
}

func (d *driver) serve(r *lease.Request) *lease.Answer {
	age := d.now - d.born
	switch {
	case d.away:
		return &lease.Answer{Outcome: lease.Failed}
	case r.Kind == lease.ReadRecord:
		return &lease.Answer{Entry: d.entry, Age: age}
	case r.Write.Old != d.entry.Version:
		return &lease.Answer{Outcome: lease.Conflict, Entry: d.entry, Age: age}
	}
	d.entry.Record = r.Write.Record
	d.entry.Version.Counter, d.entry.Version.Nonce = r.Write.Old.Counter+1, r.Write.Nonce
	return &lease.Answer{Entry: lease.Entry{Version: d.entry.Version}, Age: age}
}

// known is the record as the register said last.
func (d *driver) known() lease.Entry { return d.lease.Status().Entry }

// until lets time pass in heartbeats.
func (d *driver) until(t protocol.Time) {
	d.t.Helper()
	for d.now < t {
		d.now = min(t, max(d.now+1, d.out.WakeAt))
		d.step(protocol.Input{Kind: protocol.Tick})
	}
}

// TestTopicIsCreatedAtOnce: a candidate must hear itself over the broker before it writes,
// so it sends itself a heartbeat in its first step.
func TestTopicIsCreatedAtOnce(t *testing.T) {
	d := firstStep(t, Config{}, false)
	if role, _ := d.Term(); role != protocol.Root {
		t.Errorf("it is %v after everything that its first step led to was done", role)
	}
}

// TestNewRegister: a topic that a new register does not have may have been in another one
// before. Whoever creates it grants nothing for a grace from when the register was new.
func TestNewRegister(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		d := start(t, Config{}, fresh)
		begun := d.now - protocol.Second
		if role, _ := d.Term(); role != protocol.Root || d.known().Record.Root != d.Self() {
			t.Fatalf("it is %v, and the record names %v", role, d.known().Record.Root)
		}
		d.step(protocol.Input{Kind: protocol.Acquire, Ref: 1, Resource: "x"})
		grace := protocol.LAN().Grace()
		d.until(begun + grace - 1)
		if early := len(d.in) > 0; early == fresh {
			t.Errorf("new %v: granted within the grace: %v", fresh, early)
		}
		d.until(begun + 2*grace)
		if len(d.in) != 1 {
			t.Errorf("new %v: %d grants after the grace", fresh, len(d.in))
		}
	}
}

// TestDepart: a candidate has departed once the record names it no more.
func TestDepart(t *testing.T) {
	d := start(t, Config{}, false)
	d.until(d.now + protocol.Second)
	d.step(protocol.Input{Kind: protocol.Depart})
	d.until(d.now + 2*protocol.LAN().Grace())
	if r := d.entry.Record; d.Status().Role != protocol.Departed || !r.Root.IsZero() || r.Term != 2 {
		t.Errorf("it is %v, and the record names %v in term %d", d.Status().Role, r.Root, r.Term)
	}
}

// TestClone: a clone does what its original does, and neither touches the other.
func TestClone(t *testing.T) {
	d := start(t, Config{}, false)
	c := &driver{Machine: d.Clone(), t: t, now: d.now, out: protocol.Output{WakeAt: d.out.WakeAt}, entry: d.entry}
	d.until(d.now + 3*protocol.Second)
	if c.known().Version.Counter >= d.known().Version.Counter || d.known().Version.Counter < 5 {
		t.Errorf("the clone knows version %v, its original %v", c.known().Version, d.known().Version)
	}
	c.until(d.now)
	if c.known().Version.Counter != d.known().Version.Counter || c.ActsUntil() != d.ActsUntil() {
		t.Errorf("the clone knows version %v and acts until %d, its original %v and %d", c.known().Version, c.ActsUntil(), d.known().Version, d.ActsUntil())
	}
}

// TestMembersCountOnce: those who may hold when a root is started again are not those
// who may hold when it becomes the root for a second time.
func TestMembersCountOnce(t *testing.T) {
	d := start(t, Config{Lease: lease.Config{Place: "here"}}, false)
	d = with(t, Config{Lease: lease.Config{Place: "here", Known: true, HeldIn: []uint64{d.entry.Record.Term}}}, false, d.entry, 2)
	d.until(d.now + protocol.Second)
	d.away = true
	d.until(d.now + protocol.LAN().TTL)
	if role, _ := d.Term(); role == protocol.Root {
		t.Fatal("it is the root without a register")
	}
	d.away = false
	d.until(d.now + 200*protocol.Millisecond)
	if role, _ := d.Term(); role != protocol.Root || d.entry.Record.Term != 3 {
		t.Fatalf("it is %v, in term %d", role, d.entry.Record.Term)
	}
	d.step(protocol.Input{Kind: protocol.Acquire, Ref: 1, Resource: "x"})
	if len(d.in) > 0 {
		t.Error("it grants at once what somebody may hold by the word of its first term")
	}
	d.until(d.now + protocol.LAN().Grace())
	if len(d.in) != 1 {
		t.Errorf("%d grants after the grace", len(d.in))
	}
}

// TestAnotherSucceeds: a root that has stopped for its successor, and finds that another
// participant was faster, hands nothing over.
func TestAnotherSucceeds(t *testing.T) {
	for _, c := range []struct {
		next      string
		handovers int
	}{{"B", 1}, {"C", 0}} {
		d := start(t, Config{}, false)
		heir := protocol.Node{ID: "B", Incarnation: 2}
		if c.next != heir.ID { // it has taken over
			d.entry.Record.Term++
			d.entry.Record.Root = protocol.Node{ID: c.next, Incarnation: 3}
			d.entry.Version.Counter++
			d.entry.Version.Nonce++
		}
		d.told = append(d.told, protocol.Input{Kind: protocol.Yield, Node: heir})
		d.step(protocol.Input{Kind: protocol.Tick})
		handovers := 0
		for i := range d.sent {
			if d.sent[i].Kind == protocol.KindHandover {
				handovers++
			}
		}
		role, _ := d.Term()
		if role == protocol.Root || d.entry.Record.Root.ID != c.next || handovers != c.handovers {
			t.Errorf("it is %v, the record names %v, and it has sent %d hand-overs, want %d", role, d.entry.Record.Root, handovers, c.handovers)
		}
	}
}
