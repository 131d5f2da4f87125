package main

import (
	"fmt"
	"slices"
	"strings"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// asked are the resources that those ask for who are not told otherwise.
func (s *simSpec) asked() []string {
	if len(s.resources) > 0 {
		return s.resources
	}
	return []string{simResource}
}

// declared are the resources of the topic: those that are given, or else those that
// somebody asks for by name, of the participants and in the trace.
func (s *simSpec) declared(arrivals []sim.Arrival) (names []string) {
	if len(s.resources) > 0 {
		return s.resources
	}
	add := func(name string) {
		if name != protocol.Any && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if s.loaded() {
		add(simResource)
	}
	for i := range arrivals {
		add(arrivals[i].Resource)
	}
	if len(names) == 0 { // nobody names one
		add(simResource)
	}
	return names
}

// checkAsked finds requests that nobody could serve.
func (s *simSpec) checkAsked(sc *sim.Scenario, c *contender) error {
	if slices.Contains(s.resources, protocol.Any) {
		return fmt.Errorf("resources: %s is any free one, and no name: use it in asks-for", protocol.Any)
	}
	loads := []*loadSpec{&s.load}
	for i := range s.participants {
		if own := s.participants[i].overlay(s.load); own != nil {
			loads = append(loads, own)
		}
	}
	for _, l := range loads {
		for _, name := range l.asksFor {
			if err := checkResource(sc, c, name, len(l.deadlines) > 0); err != nil {
				return fmt.Errorf("asks-for: %w", err)
			}
		}
	}
	for i := range sc.Arrivals {
		a := &sc.Arrivals[i]
		if err := checkResource(sc, c, a.Resource, a.Within > 0); err != nil {
			return fmt.Errorf("trace: arrival %d: %w", i+1, err)
		}
	}
	return nil
}

// checkResource judges a request for name, by a deadline or not.
func checkResource(sc *sim.Scenario, c *contender, name string, deadline bool) error {
	switch {
	case name != protocol.Any && !slices.Contains(sc.Settings.Resources, name):
		return fmt.Errorf("%q is not among the resources %s", name, strings.Join(sc.Settings.Resources, ", "))
	case name == protocol.Any && !c.hasModels():
		return fmt.Errorf("%s does not know %s: it serves resources by name, only padme serves any free one", c.algorithm.Name, protocol.Any)
	case name == protocol.Any && deadline && c.models.Priority == protocol.Deadline:
		return fmt.Errorf("%s and a deadline contradict each other under the model deadline, which plans for each resource", protocol.Any)
	}
	return nil
}

// asksForText says what participants ask for, if that is not the only resource.
func (s *simSpec) asksForText() string {
	asked := []string(s.load.asksFor)
	if len(asked) == 0 {
		asked = s.resources
	}
	times := map[string]int{}
	for _, name := range asked {
		times[name]++
	}
	var words []string
	for i, name := range asked {
		switch n := times[name]; {
		case slices.Contains(asked[:i], name):
		case len(asked) > len(times):
			words = append(words, fmt.Sprintf("%s (%d in %d)", name, n, len(asked)))
		default:
			words = append(words, name)
		}
	}
	text := strings.Join(words, " or ")
	switch {
	case !s.loaded() || len(asked) == 0:
		return ""
	case slices.Equal(asked, []string{protocol.Any}):
		text = "any free one"
	}
	if len(s.resources) > 0 {
		text += " of " + strings.Join(s.resources, ", ")
	}
	return text
}
