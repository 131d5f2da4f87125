package padme

import (
	"iter"

	"padme/qosmutex/protocol"
)

// register holds the live requests of a participant by name. Nearly everybody
// knows a few at a time, for which a list is smaller and faster than a map.
type register struct {
	few  []*entry
	many map[protocol.RequestID]*entry // all, once there were more than maxFew; else nil
}

const maxFew = 16

func (g *register) get(id protocol.RequestID) *entry {
	if g.many != nil {
		return g.many[id]
	}
	for _, e := range g.few {
		if e.id.Clock == id.Clock && e.id.Node == id.Node {
			return e
		}
	}
	return nil
}

// add files a request whose name is not there yet.
func (g *register) add(e *entry) {
	if g.many == nil && len(g.few) < maxFew {
		g.few = append(g.few, e)
		return
	}
	if g.many == nil {
		g.many = make(map[protocol.RequestID]*entry, 2*maxFew)
		for _, known := range g.few {
			g.many[known.id] = known
		}
		g.few = nil
	}
	g.many[e.id] = e
}

func (g *register) remove(e *entry) {
	if g.many != nil {
		if delete(g.many, e.id); len(g.many) == 0 {
			g.many = nil // a burst is over: give its memory back
		}
		return
	}
	for i, known := range g.few {
		if known == e {
			last := len(g.few) - 1
			g.few[i], g.few[last] = g.few[last], nil
			g.few = g.few[:last]
			return
		}
	}
}

func (g *register) len() int { return len(g.few) + len(g.many) }

// all yields the requests in no particular order.
func (g *register) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range g.few {
			if !yield(e) {
				return
			}
		}
		for _, e := range g.many {
			if !yield(e) {
				return
			}
		}
	}
}
