package classic

import (
	"fmt"
	"math"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// Forgetful is [Voting] with the lecture's coordinators, which crash, recover at once
// and have forgotten whom they voted for: once in mean on average, each by itself and
// at any instant alike (the limit of "resets with probability Δt/mean in the next
// Δt"). They keep the fences they know, so that fences rise while exclusion holds. It
// may let two in at once; see [ViolationBound]. New fails if mean is not positive.
func Forgetful(mean protocol.Duration) protocol.Algorithm {
	a := Voting
	a.Name = "voting-forgetful"
	a.Assumes = "channels in order; coordinators forget: two may be inside at once"
	a.New = func(cfg protocol.Config) (protocol.Machine, error) {
		if mean <= 0 {
			return nil, fmt.Errorf("%w: a mean lifetime of %d ns must be positive", protocol.ErrInvalidConfig, mean)
		}
		return machine(func(e *static.Env) static.Core { return newVoting(e, mean) })(cfg)
	}
	return a
}

// coordinator has one vote.
type coordinator struct {
	env     *static.Env
	mean    protocol.Duration // between two resets; 0: there are none
	resetAt protocol.Time     // drawn when the vote is given: without a vote there is nothing to forget
	fence   fence
	vote    turn     // for whom; zero: for nobody
	newest  []uint64 // of each participant, the clock of its latest round
}

func newCoordinator(env *static.Env, mean protocol.Duration) coordinator {
	return coordinator{
		env: env, mean: mean, resetAt: protocol.Never,
		fence: fence(env.Floor), newest: make([]uint64, env.N),
	}
}

// request gives the vote if it is free, and tells whose it is.
func (c *coordinator) request(t turn) (favored turn, err error) {
	switch {
	case !c.vote.isZero() && c.vote.who == t.who:
		return turn{}, errAsked
	case t.clock <= c.newest[t.who]:
		return turn{}, errRepeat
	}
	c.newest[t.who] = t.clock
	if c.vote.isZero() {
		c.vote = t
		if c.mean > 0 {
			c.resetAt = c.env.Now() + interval(c.env, c.mean)
		}
	}
	return c.vote, nil
}

// release takes the vote back. It need not be there: the candidate may not have
// known our answer yet, and we may have forgotten.
func (c *coordinator) release(t turn) error {
	if t.clock != c.newest[t.who] {
		return errNobody
	}
	if c.vote == t {
		c.forget()
	}
	return nil
}

func (c *coordinator) tick(now protocol.Time) {
	if c.resetAt <= now {
		c.forget()
	}
}

func (c *coordinator) forget() { c.vote, c.resetAt = turn{}, protocol.Never }

// ViolationBound is the lecture's bound on the probability that voting breaks
// exclusion in a span Δt: with n coordinators, of which m voted for the one inside,
// and each of these forgetting in that span with probability p, the probability that
// at least 2m−n do,
//
//	Σ_{k=2m−n}^{m} C(m,k) p^k (1−p)^{m−k}.
//
// Then the other n−m and those that forgot make m votes for another. It is
// conservative: all others must be for one and the same candidate, and its requests
// must come after the coordinators forgot. It is NaN unless n/2 < m ≤ n and 0 ≤ p ≤ 1.
func ViolationBound(n, m int, p float64) float64 {
	if m <= n/2 || m > n || !(p >= 0 && p <= 1) {
		return math.NaN()
	}
	if p == 0 || p == 1 {
		return p // 2m−n is at least 1 and at most m
	}
	sum := 0.0
	for k := 2*m - n; k <= m; k++ {
		sum += math.Exp(logBinomial(m, k) + float64(k)*math.Log(p) + float64(m-k)*math.Log1p(-p))
	}
	return min(sum, 1)
}

func logBinomial(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}
