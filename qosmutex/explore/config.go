package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"padme/qosmutex/protocol"
)

// Config is a world and what may happen in it. A participant is named by its
// index, and in texts by a letter: A is the first, which creates the topic.
type Config struct {
	// Parents holds for each participant the index of its parent, -1 for the first,
	// the root. Parents come before their children.
	Parents []int
	// Adaptive lets participants choose other parents. Each takes as many children as
	// anybody has in Parents, so that a chain begins as one and a star, too.
	Adaptive bool
	// Register has those who can be the root, A and in adaptive trees everybody, run a
	// candidate.Machine that asks a register. Else they run a padme.Machine, and an
	// oracle appoints them.
	Register bool
	Models   protocol.Models
	Requests int // that each application makes, one after another
	Budget   Budget
	// Delay is how many ticks a message may be in flight, if time passes at all.
	Delay int
	// Upkeep lets heartbeats, beacons and the search for a parent be delayed like
	// other messages.
	Upkeep bool
	// MaxStates ends the search; 0: only the fixpoint does.
	MaxStates int
}

// Budget is how often each kind of action may happen in one run. Those that are
// not limited (a message arrives, an application asks or leaves, and the end of a
// cut or pause) need no entry.
type Budget map[Kind]int

// Unlimited is for the ticks of a Budget: as many as are possible.
const Unlimited = -1

// Time in a world.
const (
	tick = protocol.Second
	// Patience is how many ticks after the last fault everybody is served: the lapse
	// of what is lost takes 5, the search for a parent up to 8, and the recovery of a
	// token that begins after both as many again.
	Patience = 40
	// maxPause is for how many ticks messages may wait for a paused participant: more
	// than until all others have given it up.
	maxPause = 7
)

const timeToLive = 4 * tick

// timing has a heartbeat of one tick, so that sessions expire a few ticks away.
var timing = protocol.Timing{TTL: timeToLive, Heartbeat: tick, JoinWait: tick, MoveAfter: tick}

const resource = "x"

func letter(i int) string { return string(rune('A' + i)) }

// String writes the configuration as ParseTrace reads it.
func (c *Config) String() string {
	parents := make([]string, len(c.Parents))
	for i, p := range c.Parents {
		if parents[i] = "-"; p >= 0 {
			parents[i] = letter(p)
		}
	}
	s := fmt.Sprintf("parents=%s models=%v requests=%d", strings.Join(parents, ","), c.Models, c.Requests)
	if c.Adaptive {
		s += " adaptive=true"
	}
	if c.Register {
		s += " register=true"
	}
	if c.Delay != 0 {
		s += fmt.Sprintf(" delay=%d", c.Delay)
	}
	if c.Upkeep {
		s += " upkeep=true"
	}
	for k := range kindEnd {
		if n := c.Budget[k]; n != 0 {
			s += fmt.Sprintf(" %v=%d", k, n)
		}
	}
	if c.MaxStates != 0 {
		s += fmt.Sprintf(" states=%d", c.MaxStates)
	}
	return s
}

func parseConfig(s string) (Config, error) {
	c := Config{Budget: Budget{}}
	for _, f := range strings.Fields(s) {
		key, value, _ := strings.Cut(f, "=")
		n, err := strconv.Atoi(value)
		switch key {
		case "parents":
			err = nil
			for _, p := range strings.Split(value, ",") {
				c.Parents = append(c.Parents, max(-1, int(p[0])-'A'))
			}
		case "models":
			c.Models, err = protocol.ParseModels(value)
		case "requests":
			c.Requests = n
		case "adaptive":
			c.Adaptive, err = strconv.ParseBool(value)
		case "upkeep":
			c.Upkeep, err = strconv.ParseBool(value)
		case "register":
			c.Register, err = strconv.ParseBool(value)
		case "delay":
			c.Delay = n
		case "states":
			c.MaxStates = n
		default:
			k := Kind(slices.Index(kindNames[:], key))
			if k >= kindEnd {
				return c, fmt.Errorf("explore: unknown setting %q", f)
			}
			c.Budget[k] = n
		}
		if err != nil {
			return c, fmt.Errorf("explore: %q: %w", f, err)
		}
	}
	return c, c.validate()
}

// fanout is how many children each takes.
func (c *Config) fanout() int {
	most := 1
	for i := range c.Parents {
		n := 0
		for _, p := range c.Parents {
			if p == i {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// maxParticipants is what the letters, and anybody's patience, are good for.
const maxParticipants = 6

func (c *Config) validate() error {
	if len(c.Parents) < 1 || len(c.Parents) > maxParticipants {
		return fmt.Errorf("explore: %d participants are not between 1 and %d", len(c.Parents), maxParticipants)
	}
	for i, p := range c.Parents {
		if p >= i || (p < 0) != (i == 0) {
			return fmt.Errorf("explore: %d cannot be the parent of %s", p, letter(i))
		}
	}
	if !c.Register && (c.Budget[Unheard] > 0 || c.Budget[Late] > 0 || c.Budget[Forget] > 0) {
		return fmt.Errorf("explore: there is no register that could fail")
	}
	if n := c.Budget.combinations(); n > maxCombinations {
		return fmt.Errorf("explore: %d combinations of faults are more than %d", n, maxCombinations)
	}
	return nil
}
