package realrun

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
)

const (
	pingEvery   = 100 * time.Millisecond // on average: rarely enough that processes sleep before each, as before lock messages
	pingChannel = "verify-ping"
)

// measure sends messages to the others now and then, until ctx ends, and tells how long those
// took in addition to the latency that they are given, until a goroutine that waited for one ran,
// as one that waits for a lock does.
func (m *member) measure(ctx context.Context, begun time.Time) ([]Delay, error) {
	came, collected := make(chan time.Time, 1024), []Delay(nil)
	collecting, enough := context.WithCancel(ctx)
	var collector sync.WaitGroup
	defer collector.Wait()
	defer enough()
	collector.Go(func() {
		for {
			select {
			case sent := <-came:
				collected = append(collected, Delay{protocol.Time(sent.Sub(begun)), max(0, protocol.Duration(time.Since(sent)))})
			case <-collecting.Done():
				return
			}
		}
	})
	stop, err := m.p.Inbox(pingChannel, func(ping pubsub.Message) {
		if len(ping.Payload) == 8 {
			select {
			case came <- time.Unix(0, int64(binary.BigEndian.Uint64(ping.Payload))):
			default: // a thousand wait: this machine does nothing in time
			}
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	for sleep(ctx, time.Duration(rand.Int64N(int64(2*pingEvery)))) {
		to := m.Members[rand.IntN(len(m.Members))]
		if to == m.ID {
			continue
		}
		due := time.Now()
		if len(m.Delays[to]) > 0 {
			due = due.Add(m.Flat)
		}
		if err := m.p.Post(to, pingChannel, binary.BigEndian.AppendUint64(nil, uint64(due.UnixNano()))); err != nil {
			return nil, err
		}
	}
	enough()
	collector.Wait()
	return collected, nil
}
