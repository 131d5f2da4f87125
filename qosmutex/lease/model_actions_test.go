package lease_test

import (
	"slices"

	"padme/qosmutex/lease"
	"padme/qosmutex/protocol"
)

// actions lists what may happen.
func (w *model) actions(list []modelAction) []modelAction {
	tick := true
	may := func(k modelKind, i, j int, if_ bool) {
		if if_ && (k < modelFaults || w.budget[k] > 0) {
			list = append(list, modelAction{k, uint8(i), uint8(j)})
		}
	}
	for i := range w.cfg.rates {
		n := &w.nodes[i]
		if n.m == nil {
			may(modelRestart, i, 0, true)
			continue
		}
		asks, live := n.op.kind != lease.NoRequest, !n.gone && !n.paused
		tick = tick && !(asks && live && n.op.age >= w.cfg.slow)
		may(modelServe, i, 0, asks && !n.op.served && w.shut == 0)
		may(modelDeliver, i, 0, asks && n.op.served && live)
		may(modelTimeout, i, 0, asks && live)
		may(modelLinger, i, 0, asks && live && !n.op.served && n.op.kind == lease.WriteRecord)
		may(modelCrash, i, 0, true)
		may(modelResume, i, 0, n.paused)
		may(modelPause, i, 0, live)
		may(modelHeal, i, 0, n.cut)
		may(modelCut, i, 0, live && !n.cut)
		may(modelResign, i, 0, live)
		may(modelRaise, i, 0, live && n.acts())
		for j := range w.cfg.rates {
			may(modelHear, i, j, i != j && !w.cfg.prompt && live && !n.cut && w.news(n, &w.nodes[j]))
			may(modelSuccessor, i, j, i != j && live && n.acts() && w.nodes[j].self.ID != "")
		}
	}
	for g := range w.ghosts {
		may(modelLand, g, 0, w.shut == 0)
	}
	may(modelForget, 0, 0, w.shut == 0 && w.reg.entry.Version != w.reg.synced.Version)
	may(modelTick, 0, 0, tick)
	return list
}

// news reports whether n may learn something from a beacon of o.
func (w *model) news(n, o *modelNode) bool {
	v := n.m.Status().Entry.Version
	return o.version.Counter > 0 && o.version != v && o.version.Counter >= v.Counter
}

// after returns the world after an action.
func (w *model) after(a modelAction) *model {
	c := w.clone()
	c.do(a)
	if c.cfg.prompt {
		c.beacons()
	}
	c.check()
	return c
}

func (w *model) do(a modelAction) {
	if a.kind > modelFaults && w.budget[a.kind] < unlimited {
		w.budget[a.kind]--
	}
	i := int(a.i)
	n := &w.nodes[i]
	switch a.kind {
	case modelTick:
		w.tick()
	case modelServe:
		n.op.said, n.op.entry = w.reg.serve(0, n.op.kind, &n.op.write)
		n.op.served = true
		w.prune()
	case modelDeliver:
		w.answer(i, n.op.said, n.op.entry)
	case modelTimeout, modelLinger:
		if a.kind == modelLinger {
			w.ghosts = append(w.ghosts, modelWrite{n.op.write})
			w.prune()
		}
		said := lease.Failed
		if n.op.kind == lease.WriteRecord {
			said = lease.Unknown
		}
		w.answer(i, said, lease.Entry{})
	case modelLand:
		g := w.ghosts[i]
		w.ghosts = slices.Delete(w.ghosts, i, i+1)
		w.reg.serve(0, lease.WriteRecord, &g.Write)
		w.prune()
	case modelHear:
		o := &w.nodes[a.j]
		w.hear(i, beaconOf(o.version, o.term, i))
	case modelCrash:
		if n.op.kind == lease.WriteRecord && !n.op.served {
			w.ghosts = append(w.ghosts, modelWrite{n.op.write})
			w.prune()
		}
		if w.cfg.local && i == 0 && w.reg.entry.Version != w.reg.synced.Version {
			w.reg.entry = w.reg.synced // what it forgot leaves a version that it never had
			w.reg.entry.Version.Counter++
			w.reg.entry.Version.Nonce = 1<<62 + n.self.Incarnation
			w.reg.synced = w.reg.entry
			w.prune()
		}
		*n = modelNode{self: n.self, version: n.version, term: n.term}
		if w.cfg.prompt {
			n.version, n.term = lease.Version{}, 0
		}
	case modelRestart:
		w.start(i)
	case modelPause, modelResume:
		n.paused = a.kind == modelPause // when it goes on, an answer may be the first that it sees
	case modelCut, modelHeal:
		n.cut = a.kind == modelCut
		if !n.cut && !n.paused && !n.gone {
			w.hear(i, &protocol.Output{Echo: n.clock})
		}
	case modelSuccessor:
		w.step(i, &lease.Input{Successor: w.nodes[a.j].self})
	case modelResign:
		w.step(i, &lease.Input{Resign: true})
	case modelRaise:
		w.hear(i, &protocol.Output{WantCeiling: n.m.Status().Entry.Record.Ceiling + 1})
	case modelForget:
		w.reg.entry, w.shut = w.reg.synced, modelShut
		w.prune()
	}
}

// tick lets true time pass.
func (w *model) tick() {
	w.shut = max(0, w.shut-1)
	w.watch.renewed = min(modelOld, w.watch.renewed+1)
	for i, rate := range w.cfg.rates {
		n := &w.nodes[i]
		if n.m == nil {
			continue
		}
		n.clock += rate
		if n.act && n.clock >= n.until {
			n.act = false
		}
		if n.op.kind != lease.NoRequest && !n.paused {
			n.op.age++
		}
	}
	for i := range w.cfg.rates {
		n := &w.nodes[i]
		if !w.runs(i) || n.paused {
			continue
		}
		if !n.cut {
			w.hear(i, &protocol.Output{Echo: n.clock})
		}
		if n.wake <= n.clock {
			w.step(i, &lease.Input{})
		}
	}
}

// beacons has everybody hear those who act.
func (w *model) beacons() {
	for i := range w.cfg.rates {
		for j := range w.cfg.rates {
			n, o := &w.nodes[i], &w.nodes[j]
			if i != j && w.runs(i) && !n.paused && !n.cut && o.acts() && !o.paused && !o.cut && w.news(n, o) {
				w.do(modelAction{kind: modelHear, i: uint8(i), j: uint8(j)})
			}
		}
	}
}

func (w *model) answer(i int, said lease.Outcome, e lease.Entry) {
	w.nodes[i].op = modelOp{}
	if !w.nodes[i].gone {
		w.step(i, &lease.Input{Answer: &lease.Answer{Outcome: said, Entry: e, Age: protocol.MaxTTL}})
	}
}

// prune drops the ghosts that can take effect no more.
func (w *model) prune() {
	w.ghosts = slices.DeleteFunc(w.ghosts, func(g modelWrite) bool {
		return g.Old != w.reg.entry.Version && !(w.budget[modelForget] > 0 && g.Old == w.reg.synced.Version)
	})
}
