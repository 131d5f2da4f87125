package reliable

import (
	"bytes"
	"errors"
	"time"

	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/level"
	"padme/pubsub/internal/wire"
)

// errFiltered says that the content filter does not let a sample through.
var errFiltered = errors.New("pubsub: the filter does not want the sample")

// arrival is a sample as it came from the network. The content filter has been asked
// already, as no mutex may be held while the user's code runs.
type arrival struct {
	wire.Envelope
	key     string
	refused error // by the content filter; nil if it lets the sample through
	unasked bool  // the filter was not asked: nobody wanted the sample
}

// Arrived takes a message with one or more samples apart that came for a key, as a name,
// from the writer whose topics end with levels. What comes before a broken one counts.
func (r *Receiver) Arrived(key, levels string, payload []byte) { r.arrived(key, levels, payload, true) }

func (r *Receiver) arrived(key, levels string, payload []byte, first bool) {
	var one [1]arrival // bundles are rare
	all := one[:0]
	if r.out.Filter != nil {
		r.screening(1)
		defer r.screening(-1)
	}
	for several := false; len(payload) > 0; several = true {
		var e wire.Envelope
		rest, err := wire.Next(payload, &e)
		if err != nil {
			r.out.Drop(drop.Unparsed(err))
			break
		}
		several = several || len(rest) > 0
		a := arrival{Envelope: e, key: key}
		if key == wire.ManyKeys {
			if a.key, err = level.Decode(string(e.Options.Key)); err != nil {
				r.out.Drop(drop.Topic)
				break
			}
		}
		if r.out.Filter != nil {
			r.screen(&a, levels)
		}
		if several { // one that stays does not keep the others' memory
			a.Body = bytes.Clone(a.Body)
		}
		all = append(all, a)
		payload = rest
	}
	if len(all) == 0 {
		return
	}
	r.mu.Lock()
	defer r.unlock()
	now := time.Now()
	if first {
		r.heard = now
	}
	for i := range all {
		r.judge(levels, &all[i], first, now)
	}
}

// screening counts the messages that the content filter looks at.
func (r *Receiver) screening(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.screened += n
}

// screen asks the content filter about a sample, unless it is of no use anyway.
func (r *Receiver) screen(a *arrival, levels string) {
	if a.unasked = !r.expects(&a.Envelope, levels); a.unasked {
		return
	}
	if a.refused = r.verdict(&a.Envelope); a.refused != nil {
		a.Body = nil
	}
}

// verdict is the content filter's: nil if it lets a sample through.
func (r *Receiver) verdict(e *wire.Envelope) error {
	if e.Options.Status != wire.StatusData {
		return nil
	}
	keep, err := r.out.Filter(e.Body)
	if err == nil && !keep {
		err = errFiltered
	}
	return err
}

// expects reports whether a sample may be one that is wanted.
func (r *Receiver) expects(e *wire.Envelope, levels string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.writers[levels]
	if w == nil || !w.accepted() || e.Epoch != w.GUID.Incarnation || (w.started && e.Seq < w.next) {
		return false
	}
	_, early := w.early[e.Seq]
	return !early
}

// judge decides whether a sample is to be taken.
func (r *Receiver) judge(levels string, a *arrival, first bool, now time.Time) {
	w := r.writers[levels]
	switch {
	case a.Kind != wire.KindSample || a.Seq == 0 || a.Seq > maxSeq || a.Schema != r.schema && (w == nil || a.Schema != w.schema):
		r.out.Drop(drop.Kind)
	case w == nil || !w.accepted() || a.Epoch != w.GUID.Incarnation:
		r.out.Drop(drop.Unmatched)
	default:
		if w.news = now; first {
			w.heard, w.passed, w.silent = now, max(w.passed, a.Seq), time.Time{}
		}
		if a.unasked { // or it comes again
			r.out.Drop(drop.Duplicate)
			return
		}
		r.take(w, a, now)
	}
}

// wanted applies what the content filter has said.
func (r *Receiver) wanted(s *sample) bool {
	if s.Status != wire.StatusData {
		return r.cache.Knows(s.Key)
	}
	if s.refused != nil && !errors.Is(s.refused, errFiltered) {
		if !errors.Is(s.refused, ErrNoAnswer) {
			r.out.Drop(drop.Malformed)
		}
		r.events.SampleRejected(s.Writer.GUID, s.refused)
	}
	return s.refused == nil
}
