package qosmutex

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"padme/qosmutex/protocol"
)

// stay is one entry as its holder has it in its own record.
type stay struct {
	who      string
	resource string
	in, out  time.Time // out: zero while it lasts
	lost     bool      // the hold was over at some time before out
}

// record is what the holders themselves note, by fence.
type record struct {
	mu    sync.Mutex
	stays map[string]map[uint64]*stay // by resource
}

func (r *record) in(resource string, h *Hold) *stay {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stays[resource] == nil {
		r.stays[resource] = map[uint64]*stay{}
	}
	s := &stay{who: h.of.(*Topic).self.ID, resource: resource, in: time.Now()}
	r.stays[resource][h.Fence()] = s
	return s
}

func (r *record) out(s *stay, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.out, s.lost = time.Now(), err != nil
}

// churn lets members come, lock, stay, go and die, and cuts the root off now and then.
type churn struct {
	*world
	rng    *rand.Rand
	record record
	tasks  sync.WaitGroup

	alive []*member
	born  int
	hurt  time.Time // when something happened to the root last
}

// apart is the least time between two roots that go, die or are cut off.
const apart = 10 * time.Second

// grow adds a member that locks until it ends.
func (c *churn) grow() {
	c.born++
	priority := int64(c.rng.IntN(100))
	m, err := c.tryOpen(fmt.Sprintf("m%d", c.born), WithNodePriority(priority), WithFanout(2+c.rng.IntN(3)))
	if err != nil {
		c.t.Logf("%v: %s", time.Now(), err)
		return
	}
	c.alive = append(c.alive, m)
	for _, resource := range []string{"crane", "truck"} {
		rng := rand.New(rand.NewPCG(uint64(c.born), 1))
		c.tasks.Go(func() { c.work(m, resource, rng) })
	}
}

func (c *churn) work(m *member, resource string, rng *rand.Rand) {
	for {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		h, err := m.Lock(context.Background(), resource)
		if err != nil {
			return // it was ended
		}
		s := c.record.in(resource, h)
		time.Sleep(time.Duration(rng.IntN(600)) * time.Millisecond)
		err = h.Unlock()
		c.record.out(s, err)
	}
}

// pick returns a member: the root, or another one.
func (c *churn) pick(root bool) int {
	c.rng.Shuffle(len(c.alive), func(i, j int) { c.alive[i], c.alive[j] = c.alive[j], c.alive[i] })
	return slices.IndexFunc(c.alive, func(m *member) bool { return (m.Status().Role == protocol.Root) == root })
}

// act makes one thing happen: to the root only if the last one was long ago.
func (c *churn) act() {
	root := time.Since(c.hurt) > apart && c.rng.IntN(2) == 0
	i := c.pick(root)
	if i >= 0 && len(c.alive) > 5 {
		m := c.alive[i]
		c.alive = slices.Delete(c.alive, i, i+1)
		if root {
			c.hurt = time.Now()
		}
		switch c.rng.IntN(3) {
		case 0:
			m.kill()
		case 1:
			c.tasks.Go(m.close)
		default:
			c.alive = append(c.alive, m)
			m.cable.Cut()
			d := time.Duration(c.rng.IntN(8000)) * time.Millisecond
			c.tasks.Go(func() {
				time.Sleep(d)
				m.cable.Restore()
			})
		}
	}
	if len(c.alive) < 9 {
		c.grow()
	}
}

// The retained states of a run in which members and roots come, go, die and are cut off
// agree with what the holders themselves have noted: no state names a holder that never
// entered, or one whose session is over, or a fence below one that was published before,
// or none for what is held, and none says that a resource is free while somebody is inside
// for longer than it takes to tell.
func TestStatesAgreeWithTheHolders(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T, w *world) {
				o := w.witness()
				defer o.close()
				c := &churn{world: w, rng: rand.New(rand.NewPCG(seed, 0)), record: record{stays: map[string]map[uint64]*stay{}}}
				c.alive = append(c.alive, w.open("root", Create(), WithResources("crane", "truck"), WithNodePriority(50)))
				for range 6 {
					c.grow()
				}
				pass(10 * time.Second)
				for range 60 {
					time.Sleep(time.Duration(c.rng.IntN(3000)) * time.Millisecond)
					c.act()
				}
				pass(30 * time.Second)
				for _, m := range c.alive {
					m.kill()
				}
				c.tasks.Wait()
				roots := map[string]bool{}
				for resource, stays := range c.record.stays {
					all := o.of(resource)
					for _, s := range all {
						roots[s.Epoch] = true
					}
					if len(all) < len(stays) || len(stays) < 50 {
						t.Errorf("%s: %d states tell of %d entries", resource, len(all), len(stays))
					}
					judge(t, all, stays)
				}
				if len(roots) < 5 {
					t.Errorf("%d roots published, want 5 at least", len(roots))
				}
			})
		})
	}
}

// toTell is more than it takes from an entry to the state that tells of it, and
// toExpire from the death of a holder to the end of its session.
const (
	toTell   = 100 * time.Millisecond
	toExpire = 3100 * time.Millisecond // the grace of the LAN preset is 3061 ms
)

func judge(t *testing.T, all []told, stays map[uint64]*stay) {
	t.Helper()
	highest := uint64(0)
	for i, s := range all {
		if s.Fence != "" && s.fence() < highest {
			t.Errorf("fence %d was published before:", highest)
			for _, s := range all[max(0, i-4) : i+1] {
				t.Logf("  %+v", s)
			}
		}
		highest = max(highest, s.fence())
		by := stays[s.fence()]
		switch {
		case s.Holder == "" && s.Status == "held" || s.Holder != "" && s.Status != "held":
			t.Errorf("held, by nobody or without being so: %+v", s)
		case s.Holder != "" && (by == nil || by.who != s.Holder):
			t.Errorf("the holder did not enter with this fence, but %+v: %+v", by, s)
		case s.Fence == "0":
			t.Errorf("a fence that nobody has: %+v", s)
		}
		if s.Holder != "" && by != nil && !by.out.IsZero() && s.at.Sub(by.out) > toExpire {
			t.Errorf("held by somebody who left %v ago: %+v", s.at.Sub(by.out), s)
		}
		if s.Status != "free" {
			continue
		}
		for fence, stay := range stays {
			if stay.in.Before(s.at.Add(-toTell)) && !stay.lost && stay.out.After(s.at) {
				t.Errorf("free while %s is inside with fence %d since %v: %+v", stay.who, fence, stay.in, s)
			}
		}
	}
}
