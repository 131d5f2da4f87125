package discovery

// Each connection of a participant has a birth and an epoch of its own, and what it has
// announced on the one before it announces again, a moment after the birth. If no death was
// announced in between, as none is when the broker crashes, it has lived all the time, and so
// have its writers and readers: they stay until they are announced again, same or changed.
// What is missing then was closed while its participant was away. The participant is asked
// for it, as in doubt.go; what it does not name is closed, and what it has not announced
// when that is over is gone.

// current reports whether an endpoint of a participant is of its present connection.
func (p *peer) current(e *Remote) bool {
	return p.Alive && p.Epoch == e.Epoch && p.Incarnation == e.Incarnation
}

// counts reports whether an endpoint of a participant is there: of its present connection,
// or about to be announced on that.
func (p *peer) counts(e *Remote) bool {
	return p.current(e) || p.awaits(e)
}

// awaits reports whether an endpoint is about to be announced again, or the birth to come
// that belongs to what is announced. Without a watch it would not be noticed that it does not.
func (p *peer) awaits(e *Remote) bool {
	return e.stays && p.watch != nil && p.Alive && p.Epoch != e.Epoch
}

// stay notes which endpoints are to be announced again once a presence is taken for the
// next, and reports whether there are any.
func (p *peer) stay(next *Presence) (some bool) {
	lives := next.Alive && next.Incarnation == p.Incarnation
	for _, e := range p.endpoints {
		e.stays = lives && p.counts(e)
		some = some || e.stays
	}
	return some
}

// waitOver ends the wait for what is announced again.
func (d *Directory) waitOver(p *peer) {
	for _, e := range p.endpoints {
		e.stays = false
	}
	d.judgeAll(p, nil)
}

// A death names a birth that was not heard of, if the participant came back, and died, while
// we were away. It may also never have been born: a last will is left before the birth is
// published. An announcement on that connection shows which.

// fate is a death of which that is not known yet.
type fate struct {
	Presence
	ended map[string]uint64
}

// unborn notes a death that names a later birth than the present one, and reports whether
// nothing shows that there was such a birth.
func (p *peer) unborn(pr *Presence, ended map[string]uint64) bool {
	if pr.Incarnation != p.Incarnation { // a rival's
		return true
	}
	for _, e := range p.endpoints {
		if e.Incarnation == pr.Incarnation && e.Epoch == pr.Epoch {
			return false
		}
	}
	p.fate = &fate{*pr, ended}
	return true
}

// meets reports whether an announcement shows that a death is true.
func (f *fate) meets(e *Remote) bool {
	return f != nil && f.Incarnation == e.Incarnation && f.Epoch == e.Epoch
}
