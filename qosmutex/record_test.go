package qosmutex

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"padme/pubsub"
	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register"
	"padme/qosmutex/register/local"
)

// oneAnswer is a register that gives the same answer to everything, or none in time.
type oneAnswer struct {
	entry register.Entry
	err   error
	slow  bool
	asked register.Write
}

func (r *oneAnswer) Get(ctx context.Context, _ string) (register.Entry, error) {
	return r.entry, r.wait(ctx)
}

func (r *oneAnswer) CompareAndSet(ctx context.Context, writes ...register.Write) []register.Result {
	r.asked = writes[0]
	return []register.Result{{Version: r.entry.Version, Err: r.wait(ctx)}}
}

func (r *oneAnswer) Age() time.Duration { return time.Hour }

func (r *oneAnswer) wait(ctx context.Context) error {
	if !r.slow {
		return r.err
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	return &register.Unavailable{Unknown: true, Cause: ctx.Err()}
}

// TestRegisterAnswers: what the lease's machine is told of each answer of a register.
func TestRegisterAnswers(t *testing.T) {
	record := protocol.Record{
		Term: 7, Root: protocol.Node{ID: "A", Incarnation: 1}, Lease: protocol.Second, TTL: 2 * protocol.Second, Ceiling: 100,
		Settings: protocol.Settings{Version: 1, Open: true},
	}
	version := register.Version{Domain: register.Domain{1}, Counter: 3, Nonce: 9}
	there := register.Entry{Value: protocol.AppendRecord(nil, &record), Version: version}
	none := register.Entry{Version: register.Version{Domain: register.Domain{1}}}
	conflict := func(current register.Entry, unknown bool) error {
		return &register.Conflict{Key: "k", Current: current, Unknown: unknown}
	}
	for _, c := range []struct {
		name    string
		kind    lease.RequestKind
		answers oneAnswer
		want    lease.Outcome
		counter uint64 // of the version that is told
		term    uint64 // of the record that is told
		failed  bool   // the log says so
	}{
		{"a record", lease.ReadRecord, oneAnswer{entry: there}, lease.Done, 3, 7, false},
		{"no record", lease.ReadRecord, oneAnswer{entry: none}, lease.Done, 0, 0, false},
		{"no record of ours", lease.ReadRecord, oneAnswer{entry: register.Entry{Value: []byte("?"), Version: version}}, lease.Failed, 3, 0, true},
		{"nothing", lease.ReadRecord, oneAnswer{err: &register.Unavailable{}}, lease.Failed, 0, 0, true},
		{"a read in vain", lease.ReadRecord, oneAnswer{slow: true}, lease.Failed, 0, 0, true},
		{"written", lease.WriteRecord, oneAnswer{entry: register.Entry{Version: version}}, lease.Done, 3, 7, false},
		{"not written", lease.WriteRecord, oneAnswer{err: &register.Unavailable{}}, lease.Failed, 0, 0, true},
		{"perhaps written", lease.WriteRecord, oneAnswer{err: &register.Unavailable{Unknown: true}}, lease.Unknown, 0, 0, true},
		{"another was there", lease.WriteRecord, oneAnswer{err: conflict(there, false)}, lease.Conflict, 3, 7, false},
		{"perhaps written, and replaced", lease.WriteRecord, oneAnswer{err: conflict(there, true)}, lease.Unknown, 0, 0, true},
		{"no word in time", lease.WriteRecord, oneAnswer{slow: true}, lease.Unknown, 0, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := c.answers
				k := &recordKeeper{register: &r, key: "k", patience: 100 * time.Millisecond}
				begun := time.Now()
				got, err := k.consult(t.Context(), &lease.Request{Kind: c.kind, Write: lease.Write{Record: record, Nonce: 9}})
				if took := time.Since(begun); took > k.patience {
					t.Errorf("it waits for %v, want %v", took, k.patience)
				}
				term := got.Entry.Record.Term
				if c.kind == lease.WriteRecord && c.want == lease.Done {
					term = record.Term // the machine knows what it wrote
				}
				if got.Outcome != c.want || got.Entry.Version.Counter != c.counter || term != c.term || (err != nil) != c.failed {
					t.Errorf("outcome %v, version %d, term %d, error %v; want %v, %d, %d and failed=%v",
						got.Outcome, got.Entry.Version.Counter, term, err, c.want, c.counter, c.term, c.failed)
				}
				if c.kind == lease.ReadRecord && c.want == lease.Done && got.Age != 3600*protocol.Second {
					t.Errorf("the register is %v old", got.Age)
				}
			})
		})
	}
}

// TestSlowRegister: answers that take a little longer than is waited for are heard the next time.
func TestSlowRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &recordKeeper{register: &slowRegister{takes: 150 * time.Millisecond}, key: "k", patience: 100 * time.Millisecond}
		for i, want := range []lease.Outcome{lease.Failed, lease.Done, lease.Done} {
			if a, _ := k.consult(t.Context(), &lease.Request{Kind: lease.ReadRecord}); a.Outcome != want {
				t.Errorf("question %d: outcome %v, want %v", i+1, a.Outcome, want)
			}
		}
	})
}

// slowRegister has no record.
type slowRegister struct {
	register.Register
	takes time.Duration
}

func (r *slowRegister) Get(ctx context.Context, _ string) (register.Entry, error) {
	select {
	case <-time.After(r.takes):
		return register.Entry{}, nil
	case <-ctx.Done():
		return register.Entry{}, ctx.Err()
	}
}

func (r *slowRegister) Age() time.Duration { return 0 }

// TestRenewalsAloneNeedNoSync: a register may forget a renewal, and nothing else.
func TestRenewalsAloneNeedNoSync(t *testing.T) {
	for _, renewal := range []bool{false, true} {
		var r oneAnswer
		k := &recordKeeper{register: &r, key: "k", patience: time.Second}
		w := lease.Write{Record: protocol.Record{Lease: protocol.Second}, Nonce: 9, Renewal: renewal}
		if _, err := k.consult(t.Context(), &lease.Request{Kind: lease.WriteRecord, Write: w}); err != nil && !errors.Is(err, register.ErrUnknown) {
			t.Fatal(err)
		}
		if got := r.asked.Renewal > 0; got != renewal {
			t.Errorf("renewal=%v is written as renewal=%v", renewal, got)
		}
	}
}

// memberNotes is what a register's file keeps of the members of a topic.
type memberNotes struct {
	placed
	members []string
}

func (n *memberNotes) NoteMember(_, member string, gone bool) error {
	if gone {
		n.members = slices.DeleteFunc(n.members, func(m string) bool { return m == member })
	} else {
		n.members = append(n.members, member)
	}
	return nil
}

func (n *memberNotes) Members(string) ([]string, bool) { return n.members, true }

// TestFormerMembersAreForgotten: a member that died while there was no root is waited for
// once, and not after each restart.
func TestFormerMembersAreForgotten(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		path := filepath.Join(t.TempDir(), "register")
		start := func() (took time.Duration, end func()) {
			began := time.Now()
			r, err := local.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			p := join("node")
			topic, err := Open(ctx, p, "t", Create(), WithRegister(r), WithOpenResources(), WithNodePriority(-1), clock)
			if err != nil {
				t.Fatal(err)
			}
			h, err := topic.Lock(ctx, "crane")
			if err != nil {
				t.Fatal(err)
			}
			_ = h.Unlock()
			return time.Since(began), func() {
				_ = p.Close(ctx)
				_ = topic.Close(ctx)
				_ = r.Close()
			}
		}
		_, end := start()
		time.Sleep(10 * time.Second)
		q := join("member")
		member, err := Open(ctx, q, "t", clock)
		if err != nil {
			t.Fatal(err)
		}
		end()
		_ = q.Close(ctx)
		_ = member.Close(ctx)
		first, end := start()
		time.Sleep(10 * time.Second)
		end()
		second, end := start()
		end()
		if ttl := LAN().TTL; first < ttl || second > ttl/2 {
			t.Errorf("granted %v and %v after two restarts, want the second one not to wait", first, second)
		}
	})
}

// TestMembersAreNoted: a root that is started again at its place knows who may hold.
func TestMembersAreNoted(t *testing.T) {
	n := &memberNotes{}
	topic := &Topic{record: recordKeeper{placed: n, settled: true, candidate: new(candidate.Machine)}}
	first, second, other := protocol.Node{ID: "hall/a", Incarnation: 1}, protocol.Node{ID: "hall/a", Incarnation: 2}, protocol.Node{ID: "b", Incarnation: 7}
	topic.out.Begun = []protocol.Node{first, other}
	topic.noteMembers()
	topic.out.Ended, topic.out.Begun = []protocol.Node{first}, []protocol.Node{second}
	topic.noteMembers()
	if got, known := membersOf(n, "k"); !known || !slices.Equal(got, []protocol.Node{other, second}) {
		t.Errorf("members %v, known=%v", got, known)
	}
}
