package pubsub

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// sealed is a large sample that tells whether it is what was written.
type sealed struct {
	Writer  string `pubsub:"key"`
	N       int
	Sum     uint32
	Payload []byte
}

func newSealed(rnd *rand.Rand, writer string, n int) sealed {
	s := sealed{Writer: writer, N: n, Payload: make([]byte, 50_000+rnd.IntN(500_000))}
	for i := range s.Payload {
		s.Payload[i] = byte(n + i*i)
	}
	s.Sum = crc32.ChecksumIEEE(s.Payload)
	return s
}

// Large samples of several writers, whose memory is used again, arrive as they were written,
// whichever connections are cut while they are on their way.
func TestLargeSamplesSurviveCutsUnchanged(t *testing.T) {
	for name, q := range map[string]QoS{
		"keep all":  {Reliability: Reliable, History: KeepAll, MaxBlocking: time.Minute},
		"keep last": {Reliability: Reliable, History: KeepLast, Depth: 1},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T, d *world) { largeSamples(t, d, q) })
		})
	}
}

func largeSamples(t *testing.T, d *world, q QoS) {
	const written = 60
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r := readerOf(t, topicOf[sealed](t, d.join("to"), "p"), q)
	var reading sync.WaitGroup
	defer reading.Wait()
	taken := map[string]int{}
	reading.Go(func() {
		for s := range r.Samples(ctx) {
			if !s.Info.Valid {
				continue
			}
			if sum := crc32.ChecksumIEEE(s.Data.Payload); sum != s.Data.Sum {
				t.Errorf("%s's sample %d has the sum %x, not %x", s.Data.Writer, s.Data.N, sum, s.Data.Sum)
			}
			taken[s.Data.Writer]++
		}
	})
	var writing sync.WaitGroup
	for i := range 2 {
		name := fmt.Sprint("from", i)
		p, cable := d.joinBy(name)
		w := writerOf(t, topicOf[sealed](t, p, "p"), q)
		awaitReaders(t, w, 1)
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		writing.Go(func() {
			for n := range written {
				if n%20 == 10 {
					cable.Cut()
					cable.Restore()
				}
				if err := w.Write(ctx, newSealed(rnd, name, n)); err != nil {
					t.Error(err)
				}
			}
			if err := w.WaitAcked(testContext(t)); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	pass(time.Second)
	stop()
	reading.Wait()
	for name, n := range taken {
		if n > written || q.History == KeepAll && n != written || n == 0 {
			t.Errorf("%d of %d samples of %s", n, written, name)
		}
	}
	if len(taken) != 2 {
		t.Errorf("samples of %d writers", len(taken))
	}
}
