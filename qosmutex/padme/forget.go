package padme

import (
	"cmp"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
)

// defaultMaxIdle is how many undeclared resources that are not in use are remembered. On an
// open topic names come and go without end, such as the numbers of jobs.
const defaultMaxIdle = 1024

// forgetIdle forgets such resources once there are many more, those with the oldest grants
// first. Two bounds stand for all of them. No grant of theirs was newer than forgotten: a
// participant never enters on an older one, and answers a Sync about it so that the root asks
// everybody. And no fence of theirs was above fences, so none is handed out twice.
func (m *Machine) forgetIdle() {
	if !m.settings.Open || len(m.resources) <= m.forgetAt {
		return
	}
	wanted := make(map[*queue]bool, len(m.requests))
	for _, e := range m.requests {
		wanted[e.q] = true
	}
	used := func(r *resource) bool { return !r.tok.rests() || wanted[&r.q] || m.declared(r.q.resource) }
	idle := slices.DeleteFunc(slices.Clone(m.resources), used)
	if over := len(idle) - m.maxIdle; over > 0 {
		slices.SortFunc(idle, byGrant)
		for _, r := range idle[:over] {
			m.fences = max(m.fences, r.tok.next)
			m.forgotten = r.tok.newest(m.forgotten)
			m.touch(r.q.resource)
		}
		m.bound = maxGrant(m.bound, m.forgotten)
		first := idle[over]
		m.resources = slices.DeleteFunc(m.resources, func(r *resource) bool { return !used(r) && byGrant(r, first) < 0 })
	}
	m.forgetAt = len(m.resources) + m.maxIdle
}

// rests reports whether nothing is under way: all else is said by the numbers of the newest
// grant and of the next fence.
func (t *token) rests() bool { return t.phase == home || t.phase == away && len(t.entries) == 0 }

// newest is the newest grant that is known of t, or g if that is newer.
func (t *token) newest(g protocol.Grant) protocol.Grant {
	return maxGrant(g, maxGrant(t.grant, t.bound))
}

func maxGrant(a, b protocol.Grant) protocol.Grant {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

func byGrant(a, b *resource) int {
	return cmp.Or(a.tok.newest(protocol.Grant{}).Compare(b.tok.newest(protocol.Grant{})), strings.Compare(a.q.resource, b.q.resource))
}
