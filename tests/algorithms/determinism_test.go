package algorithms_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/padme"
	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// written runs what seed draws and returns all that can be seen of it.
func written(t *testing.T, algorithm protocol.Algorithm, seed uint64, change func(*anything)) string {
	t.Helper()
	a := drawAnything(algorithm, seed)
	change(a)
	var b bytes.Buffer
	a.scenario.Trace = sim.TraceTo(&b, nil)
	if err := a.prepare(a.algorithm); err != nil {
		t.Fatal(err)
	}
	r, err := a.sim.Run()
	if err != nil {
		t.Fatalf("%s, seed %d: %v", algorithm.Name, seed, err)
	}
	fmt.Fprintf(&b, "%v%+v", r, r.Report())
	return b.String()
}

// adaptive leaves the tree to PADME: a Join that names its parent reaches only that
// one in a Fast run, so that with named parents less is drawn.
func adaptive(a *anything) {
	if a.algorithm.Name != padme.Algorithm.Name {
		return
	}
	for i := range a.scenario.Participants {
		a.scenario.Participants[i].Parent = ""
	}
}

func TestFastRunsOfEveryAlgorithmAreTheSameRuns(t *testing.T) {
	for _, algorithm := range papers.Algorithms() {
		for seed := range uint64(12) {
			sameFast(t, algorithm, seed, adaptive)
		}
	}
}

// PADME in all models, without and with chance in the network.
func TestFastRunsOfAllModelsAreTheSameRuns(t *testing.T) {
	all := protocol.AllModels()
	for _, m := range all[:8] {
		aging, deadline := m, m
		aging.Priority, deadline.Priority = protocol.Aging, protocol.Deadline
		retain, direct := m, m
		retain.Release, direct.Release = protocol.Retain, protocol.Direct
		all = append(all, aging, deadline, retain, direct)
	}
	for _, m := range all {
		for seed := range uint64(4) {
			sameFast(t, padme.Algorithm, 100+seed, func(a *anything) {
				adaptive(a)
				a.scenario.Settings.Models = m
			})
		}
	}
}

func sameFast(t *testing.T, algorithm protocol.Algorithm, seed uint64, change func(*anything)) {
	t.Helper()
	var both [2]string
	for i := range both {
		both[i] = written(t, algorithm, seed, func(a *anything) {
			change(a)
			a.scenario.Fast = i == 1
		})
	}
	if both[0] != both[1] {
		t.Errorf("%s, seed %d: encoded and fast differ: %s", algorithm.Name, seed, difference(both[0], both[1]))
	}
}

func difference(a, b string) string {
	one, two := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(one), len(two)) {
		if one[i] != two[i] {
			return fmt.Sprintf("line %d:\n%s\n%s", i+1, one[i], two[i])
		}
	}
	return "one is longer"
}

const hashOnly = "PADME_TEST_HASH_ONLY"

// The same bytes in other processes, which have another seed for the order of maps,
// on one processor and on several.
func TestSameSeedSameBytesInEveryProcess(t *testing.T) {
	sum := sha256.New()
	for _, algorithm := range papers.Algorithms() {
		for seed := range uint64(8) {
			sum.Write([]byte(written(t, algorithm, seed, func(*anything) {})))
		}
	}
	here := fmt.Sprintf("<%x>", sum.Sum(nil))
	if os.Getenv(hashOnly) != "" {
		fmt.Println(here)
		return
	}
	for _, processors := range []string{"1", "4"} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		c.Env = append(os.Environ(), hashOnly+"=1", "GOMAXPROCS="+processors)
		out, err := c.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(here)) {
			t.Errorf("GOMAXPROCS=%s: want %s, got %s, %v", processors, here, out, err)
		}
	}
}

// careless is a machine whose caller uses its memory again as soon as it may: what
// a machine keeps of a message, it must copy.
type careless struct {
	tap
	last *spoilable
}

// spoilable is what was last given to a machine, whichever it was.
type spoilable struct {
	in  protocol.Input
	msg protocol.Message
}

func (m careless) Step(now protocol.Time, in *protocol.Input, out *protocol.Output) error {
	last := m.last
	spoil(&last.msg)
	last.in = *in
	if in.Message != nil {
		last.msg = copied(in.Message)
		last.in.Message = &last.msg
	}
	return m.Machine.Step(now, &last.in, out)
}

func copied(msg *protocol.Message) protocol.Message {
	c := *msg
	c.Path, c.Entries, c.Wishes = slices.Clone(c.Path), slices.Clone(c.Entries), slices.Clone(c.Wishes)
	c.Tokens, c.Sessions = slices.Clone(c.Tokens), slices.Clone(c.Sessions)
	c.Settings.Resources, c.Schedule = slices.Clone(c.Settings.Resources), slices.Clone(c.Schedule)
	return c
}

func spoil(msg *protocol.Message) {
	bad := protocol.Node{ID: "spoilt", Incarnation: 99}
	spoilPath(msg.Path, bad)
	for i := range msg.Entries {
		msg.Entries[i] = protocol.Entry{ID: protocol.RequestID{Node: bad}, Fence: 1 << 60}
	}
	for i := range msg.Wishes {
		msg.Wishes[i] = protocol.Wish{ID: protocol.RequestID{Node: bad}, Priority: -9}
	}
	for i := range msg.Schedule {
		msg.Schedule[i] = protocol.Scheduled{ID: protocol.RequestID{Node: bad}}
	}
	for i := range msg.Tokens {
		msg.Tokens[i] = protocol.TokenState{Resource: "spoilt"}
	}
	spoilPath(msg.Sessions, bad)
	for i := range msg.Settings.Resources {
		msg.Settings.Resources[i] = "spoilt"
	}
}

func spoilPath(path []protocol.Node, bad protocol.Node) {
	for i := range path {
		path[i] = bad
	}
}

func TestNoMachineKeepsWhatIsNotItsOwn(t *testing.T) {
	for _, algorithm := range papers.Algorithms() {
		for seed := range uint64(12) {
			plain := written(t, algorithm, seed, func(*anything) {})
			spoilt := written(t, algorithm, seed, func(a *anything) {
				last := new(spoilable)
				a.wrap(func(m protocol.Machine) protocol.Machine { return careless{tap{m, nil}, last} })
			})
			if plain != spoilt {
				t.Errorf("%s, seed %d: %s", algorithm.Name, seed, difference(plain, spoilt))
			}
		}
	}
}
