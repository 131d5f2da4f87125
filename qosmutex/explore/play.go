package explore

import (
	"padme/qosmutex/protocol"
)

// actions lists what can happen in w, what goes wrong last.
func (w *world) actions() (list []Action) {
	n := len(w.nodes)
	for k := range kindEnd {
		switch {
		case k.ofNobody():
			list = w.appendPossible(list, Action{Kind: k})
		case k.onChannel():
			for c, ch := range w.channels {
				if len(ch) > 0 {
					list = w.appendPossible(list, Action{k, uint8(c / n), uint8(c % n)})
				}
			}
		case k == Suspect:
			for i := range n * n {
				list = w.appendPossible(list, Action{k, uint8(i / n), uint8(i % n)})
			}
		default:
			for i := range n {
				list = w.appendPossible(list, Action{Kind: k, A: uint8(i)})
			}
		}
	}
	return list
}

func (w *world) appendPossible(list []Action, a Action) []Action {
	if w.possible(a) {
		list = append(list, a)
	}
	return list
}

// possible reports whether a can happen in w.
func (w *world) possible(a Action) bool {
	if int(a.A) >= len(w.nodes) || int(a.B) >= len(w.nodes) {
		return false
	}
	n := &w.nodes[a.A]
	if a.Kind.onChannel() {
		to := int(a.B)
		return len(w.channels[w.channel(a)]) > 0 && (a.Kind == Deliver && w.runs(to) || w.budget[a.Kind] > 0 && w.runs(to))
	}
	up := !n.is(crashed | paused | departed)
	switch a.Kind {
	case Tick:
		return w.budget[Tick] != 0 && w.inTime()
	case Ask:
		return up && n.state == idle && int(n.asked) < w.cfg.Requests
	case Leave:
		return up && n.state == inside
	case Heal:
		return n.is(offline) && !n.is(crashed|paused)
	case Revive:
		return n.is(paused)
	case Appoint:
		return w.record.named && int(w.record.root) == int(a.A) && up && !n.is(offline)
	case Land:
		return len(w.register.ghosts) > 0
	}
	if w.budget[a.Kind] <= 0 {
		return false
	}
	switch a.Kind {
	case Withdraw:
		return up && n.state == waits
	case Crash:
		return !n.is(crashed | departed)
	case Restart:
		return n.is(crashed)
	case Cut:
		return !n.is(crashed | offline | departed)
	case Pause, Outrank:
		return up
	case Suspect:
		return up && a.A != a.B
	case Unheard, Late:
		return up && w.able(int(a.A)) && !n.is(unheard|late)
	case Forget:
		return w.now >= w.register.shut
	}
	return up // Depart
}

func (w *world) channel(a Action) int { return int(a.A)*len(w.nodes) + int(a.B) }

// inTime reports whether a heartbeat may pass before more messages arrive.
func (w *world) inTime() bool {
	for c, ch := range w.channels {
		most := protocol.Time(w.cfg.Delay)
		if w.nodes[c%len(w.nodes)].is(paused) {
			most = maxPause
		}
		if len(ch) > 0 && w.now-ch[0].sent >= most*tick {
			return false
		}
	}
	return true
}

// after returns the world after a, which must be possible.
// out is for its machines' steps.
func (w *world) after(a Action, out *protocol.Output) *world {
	c := w.copy(out)
	c.do(a)
	if !c.cfg.Upkeep {
		c.upkeep()
	}
	c.checkWithdrawn()
	return c
}

func (w *world) do(a Action) {
	if w.budget[a.Kind] > 0 {
		w.budget[a.Kind]--
	}
	i := int(a.A)
	n := &w.nodes[i]
	ref := uint64(n.asked)
	switch a.Kind {
	case Deliver:
		w.deliver(w.channel(a))
	case Ask:
		n.asked++
		n.state = waits
		w.step(i, &protocol.Input{Kind: protocol.Acquire, Ref: ref + 1, Resource: resource})
	case Leave:
		n.state = idle
		w.step(i, &protocol.Input{Kind: protocol.Leave, Ref: ref})
	case Withdraw:
		n.state, n.gone = idle, n.machine.Own(ref)
		w.step(i, &protocol.Input{Kind: protocol.Withdraw, Ref: ref})
	case Tick:
		w.tick()
	case Appoint:
		w.appoint()
	case Land:
		w.land()
	default:
		w.broken = true
		w.breakDown(a)
	}
}

// breakDown does what is not in the ordinary course of things.
func (w *world) breakDown(a Action) {
	i := int(a.A)
	n := &w.nodes[i]
	switch a.Kind {
	case Crash:
		n.flags, n.state = crashed, idle
		w.drop(i)
	case Restart:
		w.start(i)
	case Cut:
		n.flags |= offline
		w.drop(i)
	case Heal:
		n.flags &^= offline
		w.step(i, &protocol.Input{Kind: protocol.Reconnect})
	case Pause:
		n.flags |= paused
	case Revive:
		n.flags &^= paused
		w.step(i, &protocol.Input{Kind: protocol.Tick})
	case Lose:
		c := w.channel(a)
		w.channels[c] = w.channels[c][1:]
	case Duplicate:
		c := w.channel(a)
		w.channels[c] = append(w.channels[c], flight{w.channels[c][0].msg, w.now})
	case Outrank:
		w.step(i, &protocol.Input{Kind: protocol.Prioritize, Priority: -1 - int64(i)})
	case Suspect:
		of := int(a.B)
		w.step(i, &protocol.Input{Kind: protocol.Suspect, Node: w.self(of)})
	case Depart:
		n.flags |= departed
		w.step(i, &protocol.Input{Kind: protocol.Depart})
	case Unheard:
		n.flags |= unheard
	case Late:
		n.flags |= late
	case Forget:
		w.forget()
	}
}

// drop loses what is in flight to i.
func (w *world) drop(i int) {
	for from := range w.nodes {
		w.channels[from*len(w.nodes)+i] = nil
	}
}
