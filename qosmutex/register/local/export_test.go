package local

// BreakDisk has everything fail that is written from now on.
func BreakDisk(r *Register) { _ = r.journal.Close() }

// Occupy has writes wait until free is called.
func Occupy(r *Register) (free func()) {
	<-r.writing
	return func() { r.writing <- struct{}{} }
}

// Commit does what waits, and returns how many calls waited before and after that.
func Commit(r *Register) (before, after int) {
	waiting := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.waiting)
	}
	before = waiting()
	r.commit()
	return before, waiting()
}

// Take has what waits be under way, as in another caller's hands.
func Take(r *Register) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
}
