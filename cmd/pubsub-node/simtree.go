package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"padme/qosmutex/candidate"
	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// treeKind is how PADME's participants get their places.
type treeKind string

const (
	// adaptiveTree is that of real participants: they elect a root by a register, look
	// for their places themselves, and find others when somebody has ended.
	adaptiveTree treeKind = "adaptive"
	// staticTree is that of the papers: given, and for good.
	staticTree treeKind = "static"
)

func (k *treeKind) Set(text string) error {
	if kinds := []string{string(adaptiveTree), string(staticTree)}; !slices.Contains(kinds, text) {
		return fmt.Errorf("no kind of tree is named %q%s: want adaptive or static", text, didYouMean(text, kinds))
	}
	*k = treeKind(text)
	return nil
}

func (k *treeKind) String() string { return string(*k) }

// Type is what the help calls it.
func (k *treeKind) Type() string { return "name" }

// adapts reports whether the participants of c elect a root and look for their places.
func (s *simSpec) adapts(c *contender) bool { return c.hasModels() && s.treeKind() == adaptiveTree }

// treeKind is static, too, where a file names parents.
func (s *simSpec) treeKind() treeKind {
	if !s.given["tree"] && s.namesParents() {
		return staticTree
	}
	return s.tree
}

func (s *simSpec) namesParents() bool {
	return slices.ContainsFunc(s.participants, func(p participantSpec) bool { return p.parent != "" })
}

// checkTree finds a tree or TTL that cannot be.
func (s *simSpec) checkTree(c *contender) error {
	if s.given["tree"] && s.tree == adaptiveTree && s.namesParents() {
		return errors.New("tree adaptive and a parent contradict each other: participants of an adaptive tree look for their places themselves")
	}
	if s.adapts(c) && s.nodes > mostAdaptive {
		return fmt.Errorf("nodes %d: the most in an adaptive tree is %d, since each asks all others for a place: give tree static", s.nodes, mostAdaptive)
	}
	switch least := leastTTL * s.latencyBound(); {
	case !c.hasModels() || !s.given["ttl"]:
	case s.ttl <= 0:
		return errors.New("ttl 0s: a session needs some time")
	case protocol.Duration(s.ttl) > protocol.MaxTTL:
		return fmt.Errorf("ttl %v: the most is %v", &s.ttl, time.Duration(protocol.MaxTTL))
	case protocol.Duration(s.ttl) < least:
		return fmt.Errorf("ttl %v: messages may take %v, so at least %v is needed for heartbeats and the register to be answered in time", &s.ttl, time.Duration(s.latencyBound()), time.Duration(least))
	}
	return nil
}

const (
	// mostAdaptive participants are beside each other within a few seconds of our time.
	mostAdaptive = 500
	// leastTTL is in latencies: the register is slow if it does not answer, after two of
	// them, within a sixteenth of the TTL.
	leastTTL = 40
	// usualTTL is what a TTL is if nothing is said: long enough that nothing expires by
	// chance.
	usualTTL = 60
)

// sessions is the TTL.
func (s *simSpec) sessions() protocol.Duration {
	if s.given["ttl"] {
		return protocol.Duration(s.ttl)
	}
	return max(protocol.LAN().TTL, min(usualTTL*s.latencyBound(), protocol.MaxTTL))
}

// elect has the participants share a register, elect their root by it and look for their
// places. The timing is that of a local network with the TTL of the topic, slower where
// messages are. The most important participant creates the topic; the others join one
// after another, since each asks all others for a place, and those of a level that was
// drawn after those above.
func (s *simSpec) elect(sc *sim.Scenario) {
	latency, t, drift := s.latencyBound(), &sc.Timing, sc.Timing.Drift
	*t = protocol.LAN().WithTTL(s.sessions())
	t.Drift = drift
	t.Heartbeat = min(max(t.Heartbeat, 14*latency), t.TTL/30*7)
	t.JoinWait, t.MoveAfter, t.Hop = max(t.JoinWait, 3*latency), max(t.MoveAfter, 40*latency), max(t.Hop, latency)
	unit := max(latency, leastUnit)
	first := slices.MinFunc(sc.Participants, func(a, b sim.Participant) int { return int(min(1, max(-1, a.Priority-b.Priority))) }).ID
	for i := range sc.Participants {
		p := &sc.Participants[i]
		p.Root, p.Parent, p.Candidate, p.Creates = false, "", true, p.ID == first
		if p.Joins += protocol.Time(i) * unit / 8; p.Creates {
			p.Joins = 0
		}
		sc.Start = max(sc.Start, p.Joins+2*(t.TTL+t.MoveAfter))
	}
	sc.Start = (sc.Start + protocol.Second - 1) / protocol.Second * protocol.Second // for who reads logs
	sc.Fanout = s.fanout
	sc.Register.Latency = s.latency.Distribution
	if s.matrix != nil {
		sc.Register.Latency = sim.Constant(latency)
	}
	sc.NewCandidate = func(p protocol.Config, l lease.Config) (sim.Candidate, error) {
		return candidate.New(candidate.Config{Protocol: p, Lease: l, Announce: p.Timing.TTL})
	}
}

// treeText says what PADME's tree is and how long its sessions last.
func (s *simSpec) treeText() string {
	what := "a root that is elected and a tree that adapts"
	if s.treeKind() == staticTree {
		what = "the root and tree that are given"
	}
	return fmt.Sprintf("PADME has %s, TTL %s", what, short(s.sessions()))
}
