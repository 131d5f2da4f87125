//go:build linux

package hostile

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/tests/extent"
	"padme/tests/poll"
)

// liar is a member that takes part in a lock topic by the algorithm, and bends what it says.
type liar struct {
	t       *testing.T
	p       *pubsub.Participant
	topic   string
	bend    func(*protocol.Message) // each message to be sent, which is the liar's own
	unbend  func(*protocol.Message) // likewise each that came
	started time.Time

	mu      sync.Mutex
	machine *padme.Machine
	out     protocol.Output
	decoder protocol.Decoder
	inside  []uint64
	ref     uint64
	ended   bool
}

// lieAs has a user take part in a topic until the test ends.
func (n *node) lieAs(t *testing.T, user, topic string, priority int64, bend, unbend func(*protocol.Message)) *liar {
	t.Helper()
	l := &liar{t: t, p: n.join(t, user), topic: topic, bend: bend, unbend: unbend, started: time.Now()}
	var err error
	l.machine, err = padme.New(protocol.Config{
		Self: protocol.Node{ID: user, Incarnation: uint64(time.Now().UnixMicro())}, Priority: priority, Timing: protocol.LAN(),
	})
	if err != nil {
		t.Fatal(err)
	}
	inbox, err := l.p.Inbox("lock/"+topic, func(m pubsub.Message) { l.hear(m.Payload) })
	if err != nil {
		t.Fatal(err)
	}
	joins, err := l.p.SubscribeRaw(t.Context(), pubsub.Main, []string{"lock", topic, "join", "+"}, func(m pubsub.RawMessage) {
		if m.Levels[3] != user && !m.Retained {
			l.hear(m.Payload)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for ctx.Err() == nil {
			l.step(&protocol.Input{Kind: protocol.Tick})
			time.Sleep(10 * time.Millisecond)
		}
	})
	t.Cleanup(func() {
		joins()
		inbox()
		cancel()
		ticking.Wait()
		l.mu.Lock()
		l.ended = true
		l.mu.Unlock()
	})
	return l
}

// joined waits until the liar has its place.
func (l *liar) joined() {
	l.t.Helper()
	poll.Within(l.t, patience, "a session of the liar", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.machine.Status().Role == protocol.Member
	})
}

func (l *liar) hear(payload []byte) {
	var m protocol.Message
	l.mu.Lock()
	err := l.decoder.Decode(payload, &m)
	l.mu.Unlock()
	if err == nil {
		if l.unbend != nil {
			l.unbend(&m)
		}
		l.step(&protocol.Input{Kind: protocol.Receive, Message: &m})
	}
}

// step does what follows from an input; what it is granted it leaves at once.
func (l *liar) step(in *protocol.Input) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	for {
		_ = l.machine.Step(protocol.Time(time.Since(l.started)), in, &l.out)
		for i := range l.out.Messages {
			l.send(&l.out.Messages[i])
		}
		for _, g := range l.out.Grants {
			l.inside = append(l.inside, g.Ref)
		}
		if len(l.inside) == 0 {
			return
		}
		in = &protocol.Input{Kind: protocol.Leave, Ref: l.inside[0]}
		l.inside = l.inside[1:]
	}
}

func (l *liar) send(m *protocol.Message) {
	bent := *m
	bent.Path, bent.Entries, bent.Tokens = slices.Clone(m.Path), slices.Clone(m.Entries), slices.Clone(m.Tokens)
	if l.bend != nil {
		l.bend(&bent)
	}
	payload := protocol.AppendMessage(nil, &bent)
	if bent.To.IsZero() {
		_ = l.p.PublishRaw(pubsub.Main, []string{"lock", l.topic, "join", l.p.ID()}, payload, false)
	} else {
		_ = l.p.Post(bent.To.ID, "lock/"+l.topic, payload)
	}
}

// ask asks for the resource that the honest members use.
func (l *liar) ask(priority int64, within, hold protocol.Duration) {
	l.mu.Lock()
	l.ref++
	ref := l.ref
	l.mu.Unlock()
	l.step(&protocol.Input{Kind: protocol.Acquire, Ref: ref, Resource: "hook", Priority: priority, Fixed: true, Within: within, Hold: hold})
}

// aheadBy bends the Lamport clock of all that a user says of itself, and back.
func aheadBy(user string, by uint64) (bend, unbend func(*protocol.Message)) {
	move := func(m *protocol.Message, by uint64) {
		ids := []*protocol.RequestID{&m.ID}
		for i := range m.Entries {
			ids = append(ids, &m.Entries[i].ID)
		}
		for i := range m.Tokens {
			ids = append(ids, &m.Tokens[i].Target)
		}
		for _, id := range ids {
			if id.Node.ID == user {
				id.Clock += by
			}
		}
	}
	return func(m *protocol.Message) { move(m, by); m.Clock += by }, func(m *protocol.Message) { move(m, -by) }
}

// A member has its clock at the end of all clocks, halfway and one jump ahead, in a topic
// that knows no clock yet and in one that is in use. Others are served as before, and a lock
// goes on that is poisoned so.
func TestPoisonedClocks(t *testing.T) {
	extent.Long(t, "two terms of a lock")
	t.Parallel()
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	for _, by := range []uint64{math.MaxUint64 - 1, 1<<63 - 1<<20, 1 << 62, 1<<32 - 1, 1 << 32} {
		for _, topic := range []string{"crane", "fresh-" + time.Now().Format("150405.000000")} {
			h.during(t, func() {
				if topic != "crane" {
					n.as(t, "mallory").publish(t, r+"lock/"+topic+"/join/mallory", joinMessage("mallory", 0), false)
				}
				bend, unbend := aheadBy("mallory", by)
				t.Run(topic, func(t *testing.T) {
					l := n.lieAs(t, "mallory", topic, 50, bend, unbend)
					if by < 1<<63 { // else nobody believes a word
						l.joined()
					}
					for range 20 {
						l.ask(100, 0, 0)
						time.Sleep(5 * time.Millisecond)
					}
				})
				once(t, h.alice, topic, topic == "crane")
				once(t, h.bob, topic, topic == "crane")
				once(t, h.alice, topic, topic == "crane")
			})
		}
	}
}

// A member asks with priorities, deadlines and stays at their extremes, and says that its
// heartbeats were sent at the extremes of time.
func TestExtremes(t *testing.T) {
	extent.Long(t, "a lock after each of many")
	n := startNode(t)
	h := startHonest(t, n)
	h.goOn(t)
	times := []protocol.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64}
	for _, priority := range []int64{math.MinInt64, -1, 0, math.MaxInt64} {
		h.during(t, func() {
			t.Run("", func(t *testing.T) {
				i := 0
				l := n.lieAs(t, "mallory", "crane", priority, func(m *protocol.Message) {
					switch i++; m.Kind {
					case protocol.KindRequest:
						m.Within, m.Hold = times[i%len(times)], times[i/len(times)%len(times)]
						m.Hidden = math.MaxUint32
					case protocol.KindBeat:
						if i%3 == 0 {
							m.Sent, m.Attempt = times[i%len(times)], math.MaxUint64-uint64(i)
						}
					}
				}, nil)
				l.joined()
				for i := range 40 {
					l.ask(priority, times[i%len(times)], times[i/len(times)%len(times)])
					time.Sleep(5 * time.Millisecond)
				}
			})
		})
	}
	mallory := n.as(t, "mallory")
	h.during(t, func() {
		for i, ttl := range append(times, protocol.Second/2-1, 600*protocol.Second+1) {
			mallory.publish(t, r+"lock/extreme-"+string(rune('a'+i))+"/join/mallory", joinMessage("mallory", ttl), false)
		}
		for i := range 7 {
			topic := "extreme-" + string(rune('a'+i))
			once(t, h.alice, topic, false)
		}
	})
}
