package promises

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"padme/pubsub"
)

// By reading: the filter is the user's code and may call its reader.
func TestAFilterMayCallItsReader(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		var me atomic.Pointer[pubsub.Reader[value]]
		taken := make(chan int, 1)
		r := reader(t, join(t, url, "reader"), "t", keepAll, pubsub.WithFilter(func(value) bool {
			for _, s := range me.Load().Take(1) {
				taken <- s.Data.N
			}
			return len(me.Load().Matched()) == 1
		}))
		me.Store(r)
		w := writer(t, join(t, url, "writer"), "t", keepAll)
		matched(t, w, 1)
		write(t, w, "a", 1)
		if err := r.Wait(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		write(t, w, "a", 2)
		select {
		case n := <-taken:
			if n != 1 {
				t.Errorf("the filter took sample %d", n)
			}
		case <-time.After(patience):
			t.Fatal("the filter has taken nothing")
		}
	})
}

// By reading: no call waits beyond its context because another one waits for the broker.
func TestAWaitForTheBrokerHoldsUpNobodyElse(t *testing.T) {
	both(t, func(t *testing.T, url string) {
		way := wireTo(url)
		p := join(t, url, "p", way.option())
		way.cut()
		calls := map[string]func(context.Context) error{
			"NewReader": func(ctx context.Context) error {
				_, err := pubsub.NewReader(ctx, topic(t, p, "t"))
				return err
			},
			"Peers": func(ctx context.Context) error {
				for _, err := range p.Peers(ctx) {
					return err
				}
				return nil
			},
			"Endpoints": func(ctx context.Context) error {
				_, err := p.Endpoints(ctx)
				return err
			},
		}
		for name, call := range calls {
			patient, stop := context.WithCancel(context.Background())
			began, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				close(began)
				ended <- call(patient)
			}()
			<-began
			time.Sleep(50 * time.Millisecond)
			over := make(chan error, 1)
			go func() { over <- call(within(t, 50*time.Millisecond)) }()
			select {
			case err := <-over:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
			case <-time.After(2 * time.Second):
				t.Errorf("%s waits for another one, whatever its context says", name)
			}
			stop()
			<-ended
		}
		way.restore(url)
	})
}
