package lease_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// wall is 2026-06-01 in microseconds: the clock at the beginning, and what fences are
// told relative to.
const wall = 1_780_272_000 * 1_000_000

// steady is a network in which nothing is lost but what the test says.
type steady struct {
	w *world
	// By candidate: what becomes of its next requests.
	fates map[string][]string
}

func (s *steady) request(c *candidate, kind lease.RequestKind) (there, back protocol.Duration, lost, answerLost bool) {
	fate := ""
	if list := s.fates[c.self.ID]; kind == lease.WriteRecord && len(list) > 0 {
		fate, s.fates[c.self.ID] = list[0], list[1:]
	}
	what, span, _ := strings.Cut(fate, " ")
	switch what {
	case "lost":
		return 0, 0, true, false
	case "unanswered":
		return ms, ms, false, true
	case "late":
		d, err := time.ParseDuration(span)
		if err != nil {
			panic(err)
		}
		return protocol.Duration(d), ms, false, false
	}
	return ms, ms, false, false
}

func (s *steady) beacon(_, _ *candidate) (protocol.Duration, bool) { return ms, false }

// TestScenarios runs the stories in testdata. Times are true time since the beginning;
// "in 5ms" is by the candidate's own clock. Requests to the register and beacons take a
// millisecond each way.
//
//	topic lease=1s ttl=2s rho=0.01     begins a world; the first line
//	start A rank=0 create place=P models=fair by=alice clock=1.01      by: the models are declared
//	start A place=P known held=2       all members are known, and the process that was there held something as the root of term 2
//	advance 3s      quiet (renewals and reads are not told any more)    loud
//	crash A         pause A       resume A
//	cut A           it reaches the register but not the broker          heal A
//	away A          it does not reach the register                      back A
//	next A lost | unanswered | late 2s      what becomes of its next write: it is lost, its answer is lost, it arrives late
//	forget          the register forgets what was not synced
//	successor A B   resign A      rank A 1    raise A 1000 (fences above the clock at the beginning)
//	propose A fair                            died B A (B is told that A has ended)
//	beacon B 9 [2]  B hears a beacon of version 9 [and term 2]
//	claim A 9 [member] [ttl=2s] [register=2]   A hears that a root of another register, in term 9, is there, or a member of it
//	remember A 9      a member that looks for a root knows term 9
//	register age=0s   the register is that old now
//	show            the register, and who acts
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown command %q: want run", d.Cmd)
			}
			for _, line := range strings.Split(d.Input, "\n") {
				f := strings.Fields(line)
				if len(f) > 0 && f[0] == "topic" {
					w = &world{reg: registry{born: -protocol.MaxTTL}}
					w.net = &steady{w: w, fates: map[string][]string{}}
				}
				if err := w.do(f); err != nil {
					d.Fatalf(t, "%q: %v", line, err)
				}
			}
			if w.oracle.failure != nil {
				t.Errorf("%s: %v\n%s", d.Pos, w.oracle.failure, strings.Join(w.trace, "\n"))
			}
			return w.flush()
		})
	})
}

// topicConfig is what every candidate of a scenario begins with.
var topicConfig lease.Config

func (w *world) do(f []string) error {
	if len(f) == 0 || f[0] == "#" {
		return nil
	}
	var c *candidate
	if len(f) > 1 {
		c = w.find(f[1])
	}
	switch f[0] {
	case "topic":
		topicConfig = lease.Config{Drift: 0.01, Wall: wall}
		return options(f[1:], &topicConfig, nil, &w.lease)
	case "start":
		cfg, rate := topicConfig, 1.0
		cfg.Self.ID = f[1]
		if err := options(f[2:], &cfg, &rate, nil); err != nil {
			return err
		}
		w.start(cfg, rate)
		w.advance(0)
		return nil
	case "register": // it is that old now
		d, err := time.ParseDuration(strings.TrimPrefix(f[1], "age="))
		w.reg.born = w.now - protocol.Duration(d)
		return err
	case "advance":
		d, err := time.ParseDuration(f[1])
		w.advance(protocol.Duration(d))
		return err
	case "quiet", "loud":
		w.quiet = f[0] == "quiet"
		return nil
	case "forget":
		w.reg.forget(w.now, w.lease, topicConfig.Drift)
		return nil
	case "show":
		w.show()
		return nil
	}
	if c == nil {
		return fmt.Errorf("there is no such command or candidate")
	}
	err := c.do(f)
	w.advance(0)
	return err
}

func (c *candidate) do(f []string) error {
	w := c.w
	switch f[0] {
	case "crash":
		c.crash()
	case "pause":
		c.paused = true
	case "resume":
		c.resume()
	case "cut", "heal":
		c.cut = f[0] == "cut"
	case "away", "back":
		c.away = f[0] == "away"
	case "next":
		fates := w.net.(*steady).fates
		fates[c.self.ID] = append(fates[c.self.ID], strings.Join(f[2:], " "))
	case "resign":
		c.feed(&lease.Input{Resign: true})
	case "successor":
		c.feed(&lease.Input{Successor: w.find(f[2]).self})
	case "died":
		c.feed(&lease.Input{Died: w.find(f[2]).self})
	case "propose", "declare":
		models, err := protocol.ParseModels(f[2] + "-forward-forward-forward")
		if err != nil {
			return err
		}
		c.hear(&protocol.Output{Proposed: proposal(models, "operator", f[0] == "propose")})
	default:
		return c.numbered(f)
	}
	return nil
}

func (c *candidate) numbered(f []string) error {
	n, err := strconv.ParseUint(f[2], 10, 64)
	if err != nil {
		return err
	}
	switch f[0] {
	case "rank":
		c.rank(int(n))
	case "raise":
		c.hear(&protocol.Output{WantCeiling: wall + n})
	case "remember":
		c.hear(&protocol.Output{Remembered: n})
	case "claim": // claim C TERM [member] [register=N] [ttl=D]
		return c.claim(n, f[3:])
	case "beacon":
		term := uint64(0)
		if len(f) > 3 {
			term, err = strconv.ParseUint(f[3], 10, 64)
		}
		c.hear(beaconOf(lease.Version{Domain: [16]byte{1}, Counter: n, Nonce: math.MaxUint64}, term, c.cfg.Rank))
	default:
		return fmt.Errorf("unknown command")
	}
	return err
}

// rank has c hear its position in the queue, and nothing new.
func (c *candidate) rank(n int) {
	c.cfg.Rank = n
	c.hear(beaconOf(c.m.Status().Entry.Version, 0, n))
}

// claim has c hear of a root of another register.
func (c *candidate) claim(term uint64, how []string) error {
	claim := protocol.Claim{Register: 2, Epoch: protocol.Epoch{Number: term}, TTL: topicConfig.TTL, Root: true}
	for _, h := range how {
		key, value, _ := strings.Cut(h, "=")
		var err error
		switch key {
		case "member":
			claim.Root = false
		case "register":
			claim.Register, err = strconv.ParseUint(value, 10, 64)
		case "ttl":
			var d time.Duration
			d, err = time.ParseDuration(value)
			claim.TTL = protocol.Duration(d)
		}
		if err != nil {
			return err
		}
	}
	c.claimed = term
	c.hear(&protocol.Output{Claim: claim})
	return nil
}

func options(list []string, cfg *lease.Config, rate *float64, span *protocol.Duration) error {
	for _, o := range list {
		key, value, _ := strings.Cut(o, "=")
		var err error
		var d time.Duration
		switch key {
		case "lease":
			d, err = time.ParseDuration(value)
			cfg.Lease, *span = protocol.Duration(d), protocol.Duration(d)
		case "ttl":
			d, err = time.ParseDuration(value)
			cfg.TTL = protocol.Duration(d)
		case "rho":
			cfg.Drift, err = strconv.ParseFloat(value, 64)
		case "clock":
			*rate, err = strconv.ParseFloat(value, 64)
		case "listen":
			d, err = time.ParseDuration(value)
			cfg.Listen = protocol.Duration(d)
		case "first":
			cfg.FirstTerm, err = strconv.ParseUint(value, 10, 64)
		case "rank":
			cfg.Rank, err = strconv.Atoi(value)
		case "create":
			cfg.Create = true
		case "place":
			cfg.Place = value
		case "held":
			cfg.Held = []protocol.Held{{Ref: 1, Resource: "x", Fence: 1}}
			var term uint64
			term, err = strconv.ParseUint(value, 10, 64)
			cfg.HeldIn = append(cfg.HeldIn, term)
		case "until":
			d, err = time.ParseDuration(value)
			cfg.CountsUntil = protocol.Time(d) // from its start
		case "known":
			cfg.Known = true
		case "models":
			cfg.Settings.Models, err = protocol.ParseModels(value + "-forward-forward-forward")
		case "by":
			cfg.Settings.ModelsBy = value
		default:
			return fmt.Errorf("unknown option %q", o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) show() {
	e := &w.reg.entry
	w.say("register: version %d, term %d, root %s, fences below %s", e.Version.Counter, e.Record.Term, name(e.Record.Root), w.fence(e.Record.Ceiling))
	for _, c := range w.all {
		switch {
		case c.m == nil:
			w.say("%v does not run", c.self)
		case c.until != 0 && c.local() < c.until:
			w.say("%s acts in term %d for %dms", name(c.self), c.term, (c.until-c.local())/ms)
		default:
			w.say("%s does not act", name(c.self))
		}
	}
}
