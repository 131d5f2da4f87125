package caspaxos

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"padme/qosmutex/register"
)

// ghost is what the observer knows.
type ghost struct {
	acked   uint8 // nonce of the newest version that somebody was told of; 0: none
	ops     [voters]client
	parents [3 * voters]uint8 // of each write, by nonce: what it replaces
	denied  uint32            // writes of which it was said that they were not made
	votes   []vote
	quiet   uint8 // voters that answer nothing yet
}

// after reports whether version b is a or was written after it.
func (g *ghost) after(a, b uint8) bool {
	for {
		if a == b || a == 0 {
			return true
		}
		if b == 0 || b == firstNonce {
			return false
		}
		b = g.parents[b]
	}
}

// firmOf returns the version that is there to stay if one is forgotten.
func (e *explorer) firmOf(g *ghost, nonce uint8) uint8 {
	for nonce != 0 && e.isRenewal(nonce) && g.parents[nonce] != 0 {
		nonce = g.parents[nonce]
	}
	return nonce
}

// voted checks what was chosen.
func (e *explorer) voted(g *ghost, voter int, v vote) error {
	g.votes = slices.Clone(g.votes)
	i, found := slices.BinarySearchFunc(g.votes, v.ballot, func(v vote, b Ballot) int { return v.ballot.Compare(b) })
	if !found {
		g.votes = slices.Insert(g.votes, i, v)
	}
	if g.votes[i].nonce != v.nonce {
		return fmt.Errorf("under ballot %v both %d and %d were accepted", v.ballot, g.votes[i].nonce, v.nonce)
	}
	g.votes[i].by |= 1 << voter
	g.votes[i].firm = g.votes[i].firm || bits.OnesCount8(g.votes[i].by) >= 2
	return e.chain(g)
}

// chain checks that what was chosen follows from what was chosen before.
func (e *explorer) chain(g *ghost) error {
	var last, firm uint8
	for _, v := range g.votes {
		if bits.OnesCount8(v.by) >= 2 {
			if !g.after(last, v.nonce) || !g.after(firm, v.nonce) {
				return fmt.Errorf("%d was chosen under %v after %d and %d", v.nonce, v.ballot, last, firm)
			}
			last = v.nonce
			for n := v.nonce; n != 0 && n != firstNonce; n = g.parents[n] {
				if g.denied&(1<<n) != 0 {
					return fmt.Errorf("%d was chosen, of which was said that it was not made", n)
				}
			}
		}
		if v.firm {
			if f := e.firmOf(g, v.nonce); g.after(firm, f) {
				firm = f
			}
		}
	}
	return nil
}

// told checks what an application is told.
func (e *explorer) told(g *ghost, voter int, a *Answer) error {
	c := &g.ops[voter]
	s := e.scripts[voter][c.done]
	nonce := e.writeNonce(voter, c.done)
	c.done++
	c.running = false
	if s.replace != "" {
		e.answers["replaced"]++
		return nil
	}
	var is uint8
	switch {
	case s.read:
		is = uint8(a.Entries[0].Version.Nonce)
		e.answers["read"]++
	case a.Results[0].Err == nil:
		is = uint8(a.Results[0].Version.Nonce)
		if is != nonce || is == c.floor {
			return fmt.Errorf("%s was told that it has written %d, not %d", names[voter], is, nonce)
		}
		e.answers["made"]++
	default:
		var conflict *register.Conflict
		if !errors.As(a.Results[0].Err, &conflict) {
			return a.Results[0].Err
		}
		is = uint8(conflict.Current.Version.Nonce)
		if conflict.Unknown {
			e.answers["unknown"]++
		} else {
			e.answers["conflict"]++
			g.denied |= 1 << nonce
		}
	}
	c.knows = is
	is = e.held(g, is)
	if !g.after(c.floor, is) {
		return fmt.Errorf("%s was told of %d, though %d was known when it asked", names[voter], is, c.floor)
	}
	if !g.after(g.acked, is) && !g.after(is, g.acked) {
		return fmt.Errorf("%s was told of %d, and somebody of %d", names[voter], is, g.acked)
	}
	if g.after(g.acked, is) {
		g.acked = is
	}
	return e.chain(g)
}

// held returns a version, or, if it is a renewal that a majority no longer has because
// voters have restarted, the one that it renewed: the answer was that long on its way.
func (e *explorer) held(g *ghost, nonce uint8) uint8 {
	for _, v := range g.votes {
		if v.nonce == nonce && bits.OnesCount8(v.by) >= 2 {
			return nonce
		}
	}
	return e.firmOf(g, nonce)
}
