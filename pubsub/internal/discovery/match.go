package discovery

import (
	"strings"
	"time"
)

// otherPartition is the mismatch of two that are none of each other's business.
const otherPartition = "PARTITION"

// OtherType is the mismatch of two whose types or codecs differ.
const OtherType = "TYPE"

// KeyMark begins the description of a key field in Announcement.Fields.
const KeyMark = "key "

// Mismatch names why no samples flow between a writer and a reader of one topic, in
// either order: "PARTITION", OtherType, or the policy of which less is offered than
// requested; "" if they do.
func (a *Announcement) Mismatch(b *Announcement) string {
	offered, requested := &a.QoS, &b.QoS
	if a.Kind == "reader" {
		offered, requested = requested, offered
	}
	switch {
	case !offered.Partition.Meets(requested.Partition):
		return otherPartition
	case a.Codec != b.Codec || a.Schema != b.Schema && !(requested.AllowCompatible && compatible(a.Fields, b.Fields)):
		return OtherType
	}
	return incompatible(offered, requested)
}

// compatible reports whether samples of one struct can be read as the other.
func compatible(a, b map[string]string) bool {
	common := 0
	for name, typ := range a {
		switch other, both := b[name]; {
		case both && other != typ, !both && strings.HasPrefix(typ, KeyMark):
			return false
		case both:
			common++
		}
	}
	for name, typ := range b {
		if _, both := a[name]; !both && strings.HasPrefix(typ, KeyMark) {
			return false
		}
	}
	return common > 0
}

// incompatible names the first policy of which less is offered than requested,
// "" if there is none.
func incompatible(offered, requested *Offer) string {
	switch {
	case offered.Reliability < requested.Reliability:
		return "RELIABILITY"
	case offered.Durability < requested.Durability:
		return "DURABILITY"
	case longer(offered.Deadline, requested.Deadline):
		return "DEADLINE"
	case offered.Liveliness < requested.Liveliness || longer(offered.Lease, requested.Lease):
		return "LIVELINESS"
	case offered.Exclusive != requested.Exclusive:
		return "OWNERSHIP"
	case requested.BySourceTime && !offered.BySourceTime:
		return "DESTINATION_ORDER"
	}
	return ""
}

// longer compares durations of which 0 is infinite.
func longer(a, b time.Duration) bool {
	return b != 0 && (a == 0 || a > b)
}

// finding is what was found about two endpoints.
type finding struct {
	matched bool
	why     string  // not
	of      *Remote // as it was announced then; nil if our own QoS has changed since
}

// compare decides whether l and e match.
func (l *Local) compare(e *Remote) finding {
	why := l.Mismatch(&e.Announcement)
	return finding{why == "", why, e}
}

// judgeAll looks again at the endpoints of a participant, for one or all of our own.
func (d *Directory) judgeAll(p *peer, only *Local) {
	for _, e := range p.endpoints {
		for _, l := range d.topics[e.Topic] {
			if only == nil || l == only {
				d.judge(p, l, e)
			}
		}
	}
}

// judge follows what there is between l and e.
func (d *Directory) judge(p *peer, l *Local, e *Remote) {
	if l.Kind == e.Kind {
		return
	}
	was, judged := l.seen[e.GUID]
	switch counts := p.counts(e); {
	case counts && was.of != e:
		l.rejudge(e, was)
	case !counts && judged:
		delete(l.seen, e.GUID)
		if was.matched {
			l.endpoint.Unmatched(e.GUID, true)
		}
	case !counts && e.Change > 0 && !l.compare(e).matched:
		l.endpoint.Parted(e.GUID, false) // it has changed while it was away
	}
}

// rejudge follows that one of the two has come or has changed.
func (l *Local) rejudge(e *Remote, was finding) {
	is := l.compare(e)
	l.seen[e.GUID] = is
	switch {
	case is.matched && was.matched:
		l.endpoint.Updated(e, l.Change)
	case is.matched:
		l.endpoint.Matched(e, l.Change)
	default:
		l.endpoint.Parted(e.GUID, was.matched && was.of == nil)
	}
	if !is.matched && is.why != otherPartition && is.why != was.why {
		l.endpoint.Mismatched(e, is.why)
	}
}

// Matches returns the endpoints that match one of ours, in no order; none if that has ended.
func (d *Directory) Matches(l *Local) (all []*Remote) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.local[l.Name] != l {
		return nil
	}
	for g, v := range l.seen {
		if e := d.find(l.Topic, g); v.matched && e != nil {
			all = append(all, e)
		}
	}
	return all
}
