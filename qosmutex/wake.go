package qosmutex

import (
	"container/heap"
	"runtime"
	"sync"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

// alarms have the machines of topics stepped at the times they asked for. One goroutine does
// that for all topics of a participant: a thousand that nobody uses ask for thousands of steps
// a second, each of which is shorter than what it takes to start a goroutine.
type alarms struct {
	p     *pubsub.Participant
	users int // topics; under alarmsMu
	begun time.Time
	mu    sync.Mutex
	set   alarmHeap
	timer *time.Timer
	ended chan struct{}
	done  chan struct{} // closed when no topic is stepped any more

	// reporting is full while as many of the topics report to watchers as may at a time: hundreds
	// at once would each have a turn of the processors before a lock message has one.
	reporting chan struct{}
}

// alarm is when one topic is to be stepped.
type alarm struct {
	topic *Topic
	at    protocol.Time // by the clock of the topic; Never while it is not set. Under the topic's mutex.
	due   time.Duration // since the alarms began
	place int           // in the heap; -1: it is not set
}

// alarmsOf are those of each participant that has topics.
var (
	alarmsMu sync.Mutex
	alarmsOf = map[*pubsub.Participant]*alarms{}
)

// useAlarms returns those of a participant, for one topic more, which must end that use.
func useAlarms(p *pubsub.Participant) *alarms {
	alarmsMu.Lock()
	defer alarmsMu.Unlock()
	a := alarmsOf[p]
	if a == nil {
		a = &alarms{p: p, begun: time.Now(), timer: time.NewTimer(time.Hour), ended: make(chan struct{}), done: make(chan struct{}), reporting: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
		a.timer.Stop()
		alarmsOf[p] = a
		go a.run()
	}
	a.users++
	return a
}

// endUse ends the use by one topic, and with the last one the goroutine, for which it waits.
func (a *alarms) endUse(w *alarm) {
	a.cancel(w)
	alarmsMu.Lock()
	a.users--
	last := a.users == 0
	if last {
		delete(alarmsOf, a.p)
	}
	alarmsMu.Unlock()
	if last {
		close(a.ended)
		<-a.done
	}
}

func (a *alarms) run() {
	defer close(a.done)
	for {
		select {
		case <-a.timer.C:
		case <-a.ended:
			a.timer.Stop()
			return
		}
		for more := true; more; {
			a.p.Together(func() { more = a.stepSome() })
		}
	}
}

// togetherFor bounds how long messages wait to go out together with those of other topics.
const togetherFor = time.Millisecond

// stepSome steps topics that are due, for as long as messages may wait, and reports whether
// there may be more.
func (a *alarms) stepSome() bool {
	for began := time.Now(); time.Since(began) < togetherFor; {
		t := a.next()
		if t == nil {
			return false
		}
		t.tick()
	}
	return true
}

// next takes the alarm out that is due, or sets the timer to the first and returns nil.
func (a *alarms) next() *Topic {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.set) == 0 {
		return nil
	}
	if left := a.set[0].due - time.Since(a.begun); left > 0 {
		a.timer.Reset(left)
		return nil
	}
	return heap.Pop(&a.set).(*alarm).topic
}

// move sets an alarm, or sets it to another time.
func (a *alarms) move(w *alarm, due time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.due = due; w.place < 0 {
		heap.Push(&a.set, w)
	} else {
		heap.Fix(&a.set, w.place)
	}
	if a.set[0] == w {
		a.timer.Reset(due - time.Since(a.begun))
	}
}

func (a *alarms) cancel(w *alarm) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.place >= 0 {
		heap.Remove(&a.set, w.place)
	}
}

// arm has the machine stepped at the time it asked for. While something is held
// it is stepped every tenth of the TTL at least: timers stop while the machine
// sleeps, the clock of sessions does not.
//
// An alarm that would come too early is left alone: a superfluous tick costs less
// than moving it at each step. The caller holds mu.
func (t *Topic) arm(now, wakeAt protocol.Time) {
	if len(t.inside) > 0 && t.status.TTL > 0 {
		wakeAt = min(wakeAt, now+t.status.TTL/10)
	}
	if wakeAt >= t.alarm.at || t.ended {
		return
	}
	due := time.Since(t.alarms.begun) + max(time.Duration(wakeAt-now), 0)
	if t.unused() {
		slot := time.Duration(t.status.TTL / slots)
		later := -due % slot
		if later < 0 {
			later += slot
		}
		due, wakeAt = due+later, wakeAt+protocol.Time(later)
	}
	if wakeAt < t.alarm.at {
		t.alarm.at = wakeAt
		t.alarms.move(&t.alarm, due)
	}
}

// slots is in how many parts of a TTL topics that nobody uses are stepped: all of the same TTL
// at once, so that a processor which has nothing else to do is not woken for each.
const slots = 64

// unused reports whether the participant has its place, and has not heard for a while of
// anybody who holds something or asks for it. Not of one that waits to take over from the
// root: all that it does then is on time. The caller holds mu.
func (t *Topic) unused() bool {
	placed := t.status.Role == protocol.Member && t.record.candidate == nil || t.board.term != nil && t.board.view.GrantsFrom.IsZero()
	return placed && t.status.TTL >= slots && len(t.calls) == 0 && len(t.board.busy) == 0 && time.Since(t.used) >= sweepEvery
}

// tick lets time pass for the machine.
func (t *Topic) tick() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.alarm.at = protocol.Never
	_ = t.step(protocol.Input{Kind: protocol.Tick})
}

// alarmHeap is a heap of alarms, the one that is due first in front.
type alarmHeap []*alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *alarmHeap) Push(x any) {
	w := x.(*alarm)
	w.place = len(*h)
	*h = append(*h, w)
}

// Pop implements heap.Interface.
func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last], *h, w.place = nil, (*h)[:last], -1
	return w
}
