package qosmutex

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"padme/qosmutex/register/local"
)

// BenchmarkUnusedTopics is the processor time that a server and its broker, in one process,
// spend on locks that were used once and that nobody uses now.
func BenchmarkUnusedTopics(b *testing.B) {
	const settling, measured = 5 * time.Second, 10 * time.Second
	for _, topics := range []int{250, 1000} {
		b.Run(fmt.Sprint("topics=", topics), func(b *testing.B) {
			for b.Loop() {
				ctx := context.Background()
				p := join(b, startBroker(b, "127.0.0.1:0").URL(), "server")
				s, err := NewServer(p, WithRegister(local.Memory()))
				if err != nil {
					b.Fatal(err)
				}
				used := make(chan error, topics)
				for i := range topics {
					go func() { used <- useOnce(ctx, s, fmt.Sprint("zone", i)) }()
				}
				for range topics {
					if err := <-used; err != nil {
						b.Fatal(err)
					}
				}
				time.Sleep(settling)
				before := processCPU(b)
				time.Sleep(measured)
				spent := processCPU(b) - before
				b.ReportMetric(float64(spent.Microseconds())/measured.Seconds()/float64(topics), "cpu-us/s/topic")
				s.Close()
			}
		})
	}
}

// useOnce has a server open a topic, and takes a lock of it.
func useOnce(ctx context.Context, s *Server, name string) error {
	topic, err := s.Topic(ctx, name)
	if err != nil {
		return err
	}
	h, err := topic.Lock(ctx, "x")
	if err != nil {
		return err
	}
	return h.Unlock()
}

// processCPU is the processor time that this process has had.
func processCPU(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
