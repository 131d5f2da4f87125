package reliable

// follows reports whether s is the next sample that the reader wants from w.
func (r *Receiver) follows(w *remoteWriter, s *sample) bool {
	return s.Seq == w.next || r.narrow && s.Seq > w.next && s.previous > 0 && s.previous <= w.next
}

// following returns the next sample among those that came early.
func (r *Receiver) following(w *remoteWriter) *sample {
	if s := w.early[w.next]; s != nil || !r.narrow {
		return s
	}
	for _, s := range w.early {
		if r.follows(w, s) {
			return s
		}
	}
	return nil
}

// missed tells of samples of its instance that a narrow reader will not see: at
// least the one before s.
func (r *Receiver) missed(w *remoteWriter, s *sample) {
	before := s.previous
	if before > 0 {
		before--
	}
	if before > max(w.mine, w.historic) {
		r.lost(w, 1)
	}
	w.mine = s.Seq
}
