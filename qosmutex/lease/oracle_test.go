package lease_test

import (
	"cmp"
	"fmt"
	"slices"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// registry is the register: a compare-and-set of one key.
type registry struct {
	entry  lease.Entry
	synced lease.Entry   // what is left if it forgets
	shut   protocol.Time // it answers nothing until then
	born   protocol.Time // as it tells
	host   string        // it is one process, with this candidate in it: only its renewals are not synced
}

// serve does what is asked, in one step.
func (r *registry) serve(now protocol.Time, kind lease.RequestKind, w *lease.Write) (lease.Outcome, lease.Entry) {
	if now < r.shut {
		return lease.Unknown, lease.Entry{}
	}
	if r.entry.Version.Domain == [16]byte{} {
		r.entry.Version.Domain = [16]byte{1}
	}
	switch {
	case kind == lease.ReadRecord:
		return lease.Done, r.entry
	case r.entry.Version == w.Old:
		r.entry = lease.Entry{
			Version: lease.Version{Domain: w.Old.Domain, Counter: w.Old.Counter + 1, Nonce: w.Nonce}, Record: w.Record,
		}
		if !w.Renewal || r.host != "" && w.Record.Root.ID != r.host {
			r.synced = r.entry
		}
		return lease.Done, lease.Entry{Version: r.entry.Version}
	case r.entry.Version == lease.Version{Domain: w.Old.Domain, Counter: w.Old.Counter + 1, Nonce: w.Nonce}:
		return lease.Done, lease.Entry{Version: r.entry.Version}
	}
	return lease.Conflict, r.entry
}

// forget loses the renewals, and is closed for the lease, stretched by the drift.
func (r *registry) forget(now protocol.Time, lease protocol.Duration, rho float64) {
	r.entry = r.synced
	r.shut = now + protocol.Duration(float64(lease)/(1-rho)) + 1
}

// oracle watches the world and says what may never be.
type oracle struct {
	term    uint64        // of the newest appointment
	reach   uint64        // every fence below it may have been handed out
	renewed protocol.Time // true time of the newest write that its root knew to be made
	settled protocol.Record
	failure error
}

func (o *oracle) fail(format string, args ...any) {
	if o.failure == nil {
		o.failure = fmt.Errorf(format, args...)
	}
}

// check is called after every step.
func (o *oracle) check(w *world) {
	var acting []string
	for _, c := range w.all {
		if c.m == nil {
			continue
		}
		if err := c.m.CheckInvariants(); err != nil {
			o.fail("%v: %v", c.self, err)
		}
		if c.until != 0 && c.local() < c.until {
			acting = append(acting, c.self.ID)
		}
	}
	if slices.Sort(acting); len(acting) > 1 {
		o.fail("two act: %v", acting)
	}
}

func (o *oracle) appointed(c *candidate, a *protocol.Lease) {
	if a.Term <= o.term {
		o.fail("%v is appointed in term %d after term %d", c.self, a.Term, o.term)
	}
	if a.Fences.Next < o.reach {
		o.fail("%v starts at fence %d, and fences below %d may have been handed out", c.self, a.Fences.Next, o.reach)
	}
	if heard := c.trueTime(a.Heard); o.term > 0 && heard < o.renewed-protocol.Microsecond {
		o.fail("%v counts the grace from %dms ago, and the root before it renewed %dms ago", c.self, (c.w.now-heard)/ms, (c.w.now-o.renewed)/ms)
	}
	if a.Until <= c.local() {
		o.fail("%v is appointed when its lease is over", c.self)
	}
	if a.Fences.End <= a.Fences.Next {
		o.fail("%v has no fences", c.self)
	}
	if root := c.m.Status().Entry.Record.Root; root != c.self {
		o.fail("%v is appointed by a record that names %v", c.self, root)
	}
	o.term, o.reach = a.Term, a.Fences.End
}

// wrote is called after everything that the register does.
func (o *oracle) wrote(w *world) {
	was, is := &o.settled, &w.reg.entry.Record
	if is.Term == 0 {
		return
	}
	if is.Term < was.Term || is.Ceiling < was.Ceiling || is.Settings.Version < was.Settings.Version {
		o.fail("the record went back: %+v became %+v", was, is)
	}
	if was.Term != 0 && (is.TTL != was.TTL || is.Lease != was.Lease) {
		o.fail("TTL or lease changed: %+v became %+v", was, is)
	}
	if is.Term == was.Term && cmp.Compare(is.Root.ID, was.Root.ID) != 0 {
		o.fail("two roots in term %d: %v and %v", is.Term, was.Root, is.Root)
	}
	o.settled = *is
}
