package padme

import "padme/qosmutex/protocol"

// Aging (the Level heuristic of the SLA paper, §III-A2, with c = 2; smaller is
// more important here). In each participant's queue a request has a level, at
// first its priority, and counts the more important ones that are inserted after
// it. When it has counted patience(level), it rises by one and counts anew. The
// queue is ordered by level, clock, identifier.
//
// So a request of priority p lets at most 2^10 − 2^(10−p) later ones overtake it
// in a queue (p = 7: [protocol.AgingBound]); then it is of the first level, and
// only those of lower clocks there come first. Of two requests the one that rises
// first stays ahead, since it counts whatever the other counts. What is served
// when a token merely passes (Use) comes on top, and a participant that gets a new
// parent starts anew there.

// levelOf is the level at which a request of priority p starts.
func levelOf(p int64) uint8 { return uint8(min(max(p, 0), protocol.AgingLevels-1)) }

// patience is how many more important requests one at level must see inserted to
// rise by one: 2^(9−q) to reach q. It must not be of the first level.
func patience(level uint8) uint16 { return 1 << (protocol.AgingLevels + 2 - level) }

// age lets the requests that compete with the new request e count it. It comes
// before e is queued.
func (m *Machine) age(e *entry) {
	if m.settings.Models.Priority != protocol.Aging {
		return
	}
	if e.q != m.any {
		m.ageQueue(e.q, e)
		if m.declared(e.q.resource) {
			m.ageQueue(m.any, e)
		}
		return
	}
	m.ageQueue(m.any, e)
	for _, name := range m.settings.Resources {
		if r := m.find(name); r != nil {
			m.ageQueue(&r.q, e)
		}
	}
}

func (m *Machine) ageQueue(q *queue, by *entry) {
	if q == nil {
		return
	}
	risen := false
	for _, e := range q.waiting {
		if e.level <= by.level {
			continue
		}
		if e.overtaken++; e.overtaken >= patience(e.level) {
			e.level, e.overtaken = e.level-1, 0
			risen = true
		}
	}
	if risen {
		q.sort(protocol.Aging)
		m.propagate(q, nil)
	}
}

// relevel follows a change of priority. A request that becomes more important
// keeps what it has gained; one that becomes less important starts anew.
func (e *entry) relevel(priority int64) {
	level := levelOf(priority)
	if priority > e.priority || level < e.level {
		e.level, e.overtaken = level, 0
	}
}

// restart puts every request of q at its first level.
func (q *queue) restart() {
	if q == nil {
		return
	}
	for _, e := range q.waiting {
		e.level, e.overtaken = levelOf(e.priority), 0
	}
}
