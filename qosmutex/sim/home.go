package sim

import "padme/qosmutex/protocol"

// home reports whether the machine of n has a place in the topic.
func (n *node) home() bool {
	role := n.machine.Status().Role
	return role == protocol.Member || role == protocol.Root
}

// early reports whether the participant of a request has not had a place since it was
// started. The request is then made when it has one: an application can ask only when
// its topic is open.
func (s *Sim) early(e event) bool {
	n := &s.nodes[e.node]
	if n.placed = n.placed || n.home(); n.placed {
		return false
	}
	s.homeless[e.node] = append(s.homeless[e.node], e)
	return true
}

// settleIn makes the requests of participant i that were early, if it has a place now.
func (s *Sim) settleIn(i int32) {
	if all := s.homeless[i]; all != nil && s.nodes[i].home() {
		delete(s.homeless, i)
		for _, e := range all {
			s.schedule(e)
		}
	}
}
