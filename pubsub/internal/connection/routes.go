package connection

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// routes finds the handlers for a topic. Cost grows with the levels of the
// topic, not with the number of subscriptions.
type routes struct {
	mu      sync.RWMutex
	root    node
	count   map[string]int // handlers by filter
	scratch []*route       // of the one goroutine that dispatches
}

type node struct {
	children map[string]*node // by level; "+" is one of them
	here     []*route         // filters which end here
	below    []*route         // filters which end here with "#"
}

type route struct {
	filter  string // as subscribed at the broker
	below   string // the same below the root
	handler func(topic string, payload []byte, retained bool)
	stopped atomic.Bool
}

func (rs *routes) add(below, filter string, handler func(topic string, payload []byte, retained bool)) *route {
	r := &route{filter: filter, below: below, handler: handler}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.count == nil {
		rs.count = map[string]int{}
	}
	rs.count[filter]++
	list := rs.root.list(below, true)
	*list = append(*list, r)
	return r
}

// remove reports whether r was the last handler of its filter.
func (rs *routes) remove(r *route) (last bool) {
	r.stopped.Store(true)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	list := rs.root.list(r.below, false)
	if list == nil || !slices.Contains(*list, r) {
		return false
	}
	*list = slices.DeleteFunc(slices.Clone(*list), func(o *route) bool { return o == r })
	rs.root.prune(r.below)
	if rs.count[r.filter]--; rs.count[r.filter] > 0 {
		return false
	}
	delete(rs.count, r.filter)
	return true
}

func (rs *routes) has(filter string) bool {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	return rs.count[filter] > 0
}

func (rs *routes) filters() []string {
	rs.mu.RLock()
	defer rs.mu.RUnlock()
	all := make([]string, 0, len(rs.count))
	for f := range rs.count {
		all = append(all, f)
	}
	slices.Sort(all)
	return all
}

// dispatch calls the handlers for topic, which stands below the root. One
// goroutine at a time may call it.
func (rs *routes) dispatch(topic string, payload []byte, retained bool) {
	rs.mu.RLock()
	found := rs.root.match(topic, rs.scratch[:0])
	rs.mu.RUnlock()
	for _, r := range found {
		if !r.stopped.Load() {
			r.handler(topic, payload, retained)
		}
	}
	clear(found)
	rs.scratch = found
}

func (n *node) match(topic string, found []*route) []*route {
	found = append(found, n.below...)
	level, rest, more := strings.Cut(topic, "/")
	for _, key := range [2]string{level, "+"} {
		child := n.children[key]
		switch {
		case child == nil:
		case more:
			found = child.match(rest, found)
		default:
			found = append(append(found, child.here...), child.below...) // "a/#" matches "a"
		}
	}
	return found
}

// list returns where routes with this filter stand, nil if nothing is there and
// create is false.
func (n *node) list(filter string, create bool) *[]*route {
	level, rest, more := strings.Cut(filter, "/")
	if level == "#" {
		return &n.below
	}
	child := n.children[level]
	if child == nil {
		if !create {
			return nil
		}
		if n.children == nil {
			n.children = map[string]*node{}
		}
		child = &node{}
		n.children[level] = child
	}
	if !more {
		return &child.here
	}
	return child.list(rest, create)
}

// prune removes empty nodes along filter.
func (n *node) prune(filter string) {
	level, rest, more := strings.Cut(filter, "/")
	child := n.children[level]
	if child == nil {
		return
	}
	if more {
		child.prune(rest)
	}
	if len(child.children) == 0 && len(child.here) == 0 && len(child.below) == 0 {
		delete(n.children, level)
	}
}
