package cache

import "slices"

// Bit is that of a state; what is no state has one that fits nothing.
func Bit(state uint8) uint8 { return 1 << min(state, 7) }

// A Selection says which samples are meant: those which have one of the states in each
// mask and one of the keys. What is zero does not matter.
type Selection struct {
	Samples, Views, Instances uint8 // bits of states
	Keys                      []string
}

func (x *Selection) fits(h *Held) bool {
	one := func(mask, state uint8) bool { return mask == 0 || mask&Bit(state) != 0 }
	return one(x.Samples, h.SampleState) && one(x.Views, h.of.view) && one(x.Instances, h.of.state) &&
		(len(x.Keys) == 0 || slices.Contains(x.Keys, h.Key))
}

// candidates are samples among which are all that fit, oldest first; some are gone.
func (c *Cache) candidates(x *Selection) []*Held {
	if len(x.Keys) != 1 {
		return c.queue
	}
	if i := c.byKey[x.Keys[0]]; i != nil {
		return i.held
	}
	return nil
}

// Has reports whether a sample fits.
func (c *Cache) Has(x *Selection) bool {
	return slices.ContainsFunc(c.candidates(x), func(h *Held) bool { return !h.gone && x.fits(h) })
}

// Collect appends up to n samples that fit to out, with the states that they have
// before. What is not taken is copied: its state changes while it stays.
func (c *Cache) Collect(n int, x *Selection, take bool, out []*Held) []*Held {
	for _, h := range c.candidates(x) {
		if len(out) >= n {
			break
		}
		if h.gone || !x.fits(h) {
			continue
		}
		given := h
		if !take {
			copied := *h
			given = &copied
			h.SampleState = Read
		}
		given.ViewState, given.InstanceState = h.of.view, h.of.state
		out = append(out, given)
	}
	for _, h := range out {
		h.of.view = NotNewView
		if take {
			c.remove(h)
		}
	}
	return out
}

// Discard gives up a collected sample of which the application can make nothing.
func (c *Cache) Discard(h *Held) {
	for _, o := range h.of.held {
		if o.Seq == h.Seq && o.Writer == h.Writer {
			c.remove(o)
			return
		}
	}
}
