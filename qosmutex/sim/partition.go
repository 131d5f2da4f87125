package sim

import (
	"fmt"
	"strings"
)

// severed is one direction of a broken network.
type severed struct{ from, to map[int32]bool }

// Partition splits the network: what is sent from now on by a participant of one
// group to one of another is lost, until Heal or another Partition. Those whom no
// group names form a group of their own. What is on its way arrives.
func (s *Sim) Partition(groups ...[]string) {
	of := make([]int32, len(s.nodes)) // the group of each, 0 for those not named
	var names []string
	for g, ids := range groups {
		for _, id := range ids {
			i, ok := s.member(id, "is put into a group")
			if !ok {
				return
			}
			if of[i] != 0 {
				s.failf("%q is in two groups of a partition", id)
				return
			}
			of[i] = int32(g + 1)
		}
		names = append(names, strings.Join(ids, " "))
	}
	s.note(&Record{Event: Partitioned, Node: "network", Note: strings.Join(names, " | ")})
	for i := range s.nodes {
		s.nodes[i].group = of[i]
	}
}

// Sever loses what is sent from now on by a participant of from to one of to, and
// nothing in the other direction, until Heal.
func (s *Sim) Sever(from, to []string) {
	v := severed{map[int32]bool{}, map[int32]bool{}}
	for ids, set := range map[*[]string]map[int32]bool{&from: v.from, &to: v.to} {
		for _, id := range *ids {
			i, ok := s.member(id, "is severed")
			if !ok {
				return
			}
			set[i] = true
		}
	}
	s.note(&Record{Event: Severed, Node: "network", Note: strings.Join(from, " ") + " → " + strings.Join(to, " ")})
	s.severed = append(s.severed, v)
}

// Heal ends what Partition and Sever did.
func (s *Sim) Heal() {
	s.note(&Record{Event: Healed, Node: "network"})
	s.severed = nil
	for i := range s.nodes {
		s.nodes[i].group = 0
	}
}

// apart reports whether a message cannot get from one participant to another.
func (s *Sim) apart(from, to int32) bool {
	a, b := &s.nodes[from], &s.nodes[to]
	if a.cut || b.cut || a.group != b.group {
		return true
	}
	for i := range s.severed {
		if v := &s.severed[i]; v.from[from] && v.to[to] {
			return true
		}
	}
	return false
}

// place is that of the participant named id now, whether it runs or not.
func (s *Sim) place(id string) (int32, bool) {
	i, ok := s.index[id]
	return i, ok && s.nodes[i].ID == id
}

// member returns the place of a participant, whether it runs or not.
func (s *Sim) member(id, does string) (int32, bool) {
	i, ok := s.place(id)
	if !ok {
		s.fail(fmt.Errorf("%w: %q %s at %s, but does not take part", ErrScenario, id, does, seconds(s.now)))
	}
	return i, ok
}
