package reliable

import (
	"time"
)

// Connected follows the connection on which samples come. What is written while there is
// none does not come, and a writer that goes on takes it that a silent reader has all. So
// the reader asks: every maxBeat until there is a connection again, and then at once.
func (r *Receiver) Connected(up bool) {
	r.mu.Lock()
	defer r.unlock()
	if up {
		r.inquiry = time.Time{}
		r.inquire()
		r.waitAgain(time.Now())
		return
	}
	r.inquiry = time.Now().Add(maxBeat)
	r.schedule(r.inquiry)
}

// inquireNow asks when that is due, and reports when that will be again.
func (r *Receiver) inquireNow(now time.Time) (next time.Time) {
	if !r.inquiry.IsZero() && !now.Before(r.inquiry) {
		r.inquire()
		r.inquiry = now.Add(maxBeat)
	}
	return r.inquiry
}

// inquire asks reliable writers what there is.
func (r *Receiver) inquire() {
	for _, w := range r.writers {
		if w.reliable {
			r.ask(w, true)
		}
	}
}
