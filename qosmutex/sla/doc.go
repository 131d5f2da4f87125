// Package sla holds the algorithms of Lejeune, Arantes, Sopena and Sens, "Service
// Level Agreement for Distributed Mutual Exclusion in Cloud Computing" (the SLA
// paper), and those that it builds on: one token that travels along the links of a
// static tree toward the most important request.
//
// There are two families. Where the agreement is a priority ([Priority]), a
// participant asks its neighbor in the direction of the token on behalf of the
// best request that it knows, and the algorithms differ in how requests grow in
// importance while they wait. Where the agreement is a response time, requests are
// ordered by deadline and admitted only if they can keep it.
//
// The paper counts priorities upward from 0, the least important. This module
// counts downward. All algorithms of the priority family read a priority on one
// scale of [Levels] values: priority 0 is value Levels-1, priority Levels-1 is
// value 0; a priority below 0 counts as 0, one above Levels-1 as Levels-1.
package sla

import "padme/qosmutex/protocol"

// Levels is how many priorities the algorithms of the priority family tell apart,
// as many as the paper's experiments have (§IV-B).
const Levels = protocol.AgingLevels

// DefaultPostponement is the constant c of Level and LevelDistance where nobody
// chooses another.
const DefaultPostponement = 4

// Priority returns the algorithms of the priority family, from the one without
// priorities to the paper's last word, in a fixed order.
func Priority() []protocol.Algorithm {
	return []protocol.Algorithm{
		Raymond, KanrarChaki, KanrarChakiPiggyback, Chang, Level(DefaultPostponement), LevelDistance(DefaultPostponement),
	}
}

// valueOf is a priority of this module on the paper's scale.
func valueOf(priority int64) int64 {
	return Levels - 1 - min(max(priority, 0), Levels-1)
}

// wireOf is a value of the paper's scale as messages carry it. Values that ageing
// made greater than any priority become negative.
func wireOf(value int64) int64 { return Levels - 1 - value }
