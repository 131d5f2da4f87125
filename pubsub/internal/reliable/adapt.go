package reliable

import (
	"slices"
	"time"

	"padme/pubsub/internal/partition"
)

// Adapt follows the application, which has changed what can be.
func (r *Receiver) Adapt(p Policies) {
	r.mu.Lock()
	defer r.unlock()
	r.qos.change(&p)
	r.cache.Adapt(p.ofCache(), time.Now())
	r.schedule(r.cache.Due())
}

// Updated follows a writer that still matches: it has changed its policies, or is back on
// another connection, and may not have heard what we said.
func (r *Receiver) Updated(p Peer) {
	r.mu.Lock()
	defer r.unlock()
	if w := r.writers[writerLevels(p.GUID)]; w != nil && w.GUID == p.GUID {
		w.partitions = p.Partitions
		r.cache.Strengthen(&w.Writer, p.Strength, p.Change)
		if p.Epoch != w.epoch {
			w.epoch, w.silent = p.Epoch, time.Time{}
			r.ask(w, true)
		}
	}
}

// ReachOut has retained samples be taken from further partitions. None is given until it
// is known who lives there.
func (r *Receiver) ReachOut(to partition.List) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reach = append(append(partition.List{}, r.qos.Partitions...), to...)
	if len(r.qos.Partitions) == 0 || len(to) == 0 {
		r.reach = append(r.reach, partition.Default)
	}
	if r.orphans != nil {
		r.orphans.settled = false
	}
}

// Reaches reports whether retained samples are taken from a partition.
func (r *Receiver) Reaches(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reach.Has(name)
}

// ForgetOutside forgets what is of partitions that are left: retained samples, and
// writers that died, as they cannot match when they come back.
func (r *Receiver) ForgetOutside() {
	r.mu.Lock()
	defer r.unlock()
	in := r.qos.Partitions
	r.reach = in
	for levels, w := range r.writers {
		if !w.Died.IsZero() && !in.Meets(w.partitions) {
			delete(r.writers, levels)
		}
	}
	if r.orphans == nil {
		return
	}
	for id, o := range r.orphans.byID {
		if !slices.ContainsFunc(o.in, in.Has) {
			delete(r.orphans.byID, id)
		}
	}
}
