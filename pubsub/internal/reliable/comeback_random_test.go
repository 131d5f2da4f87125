package reliable

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"padme/pubsub/internal/wire"
)

// Whenever deaths are announced of a writer that lives, and whatever the broker repeats, a
// reader that knows the writer gets all that it holds, once and in order, if it is back soon.
// One that does not, or that has waited in vain, hears what it does not get.
func TestALivingWriterThatIsAnnouncedDead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Policies{KeepAll: rapid.Bool().Draw(t, "keep all"), Depth: rapid.IntRange(1, 3).Draw(t, "depth")}
		b := newBrokered(q, Policies{KeepAll: true, MaxSamples: rapid.IntRange(4, 200).Draw(t, "limit")})
		known := rapid.Bool().Draw(t, "known")
		if !known {
			for range rapid.IntRange(0, 10).Draw(t, "written before") {
				b.write(t, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), wire.StatusData)
			}
			b.wire = nil
			b.resubscribe("a", "b", "c")
			b.r.Settle(b.standing)
		}
		b.meet()
		if known {
			b.heal()
		}
		anyKey := rapid.SampledFrom([]string{"a", "b", "c"})
		impatient := rapid.Bool().Draw(t, "impatient")
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 19).Draw(t, "op"); {
			case op < 6:
				b.write(t, anyKey.Draw(t, "key"), wire.StatusData)
			case op < 7:
				b.deaf = rapid.Bool().Draw(t, "deaf")
				b.write(t, anyKey.Draw(t, "key"), wire.StatusDispose)
			case op < 8 && rapid.Bool().Draw(t, "one"):
				if h := b.r.TakeNext(); h != nil && h.Valid() {
					b.got = append(b.got, h.Seq)
				}
			case op < 8:
				b.take()
			case op < 9:
				b.tick()
			case op < 11:
				b.die()
			case op < 12:
				b.back()
			case op < 14:
				b.resubscribe(rapid.Permutation([]string{"a", "b", "c"}).Draw(t, "order")...)
			case op < 15:
				b.pass(comeback / 2)
				if impatient {
					b.pass(rapid.SampledFrom([]time.Duration{comeback, returnFor + time.Second}).Draw(t, "pause"))
				}
			case len(b.wire) > 0:
				i := rapid.IntRange(0, len(b.wire)-1).Draw(t, "message")
				b.step(i, rapid.SampledFrom([]string{"deliver", "lose", "repeat", "deliver"}).Draw(t, "fate"))
			}
		}
		b.rest(t)
		b.expectNoSilentLoss(t, known && !impatient, impatient)
		if b.s.Lagging(b.s.seq) != nil {
			t.Fatal("everything is told but not acknowledged")
		}
		if w := b.r.writers["w/w1"]; len(w.early) > 0 || w.earlyBytes != 0 {
			t.Fatalf("%d samples, and %d bytes, are still held back", len(w.early), w.earlyBytes)
		}
	})
}

func (b *brokered) expectNoSilentLoss(t *rapid.T, patient, writtenOff bool) {
	last := map[string]uint64{}
	for i, seq := range b.got {
		key := b.keys[seq]
		if seq <= last[key] || patient && i > 0 && seq <= b.got[i-1] {
			t.Fatalf("sample %d comes late or twice: %v", seq, b.got)
		}
		last[key] = seq
	}
	after := uint64(0)
	if !b.s.qos.KeepAll || writtenOff { // to a late joiner holes in the history are not told
		after = b.r.writers["w/w1"].historic
	}
	if n := b.unseen(after); n > b.lost || patient && b.s.qos.KeepAll && n+b.lost > 0 {
		t.Fatalf("%d samples of %v did not come, and %d are told lost: %v", n, b.valid, b.lost, b.got)
	}
}
