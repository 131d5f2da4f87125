package local

// BreakDisk has everything fail that is written from now on.
func BreakDisk(r *Register) { _ = r.journal.Close() }

// Occupy has writes wait until free is called.
func Occupy(r *Register) (free func()) {
	<-r.writing
	return func() { r.writing <- struct{}{} }
}
