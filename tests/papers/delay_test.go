package papers

import (
	"context"
	"net"
	"sync"
	"time"
)

// delayed dials connections on which every byte takes d to arrive, in either
// direction. Time is virtual in the tests that use it, so d is exact.
func delayed(dial func(context.Context) (net.Conn, error), d time.Duration) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		far, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		near, inner := net.Pipe()
		var once sync.Once
		end := func() { once.Do(func() { inner.Close(); far.Close() }) }
		go carry(inner, far, d, end)
		go carry(far, inner, d, end)
		return near, nil
	}
}

// chunk is what one Read returned, and when it may be written.
type chunk struct {
	data []byte
	due  time.Time
}

// carry copies from one connection to another, d later, until either fails.
func carry(from, to net.Conn, d time.Duration, end func()) {
	defer end()
	chunks := make(chan chunk, 1024)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer end()
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.data); err != nil {
				break
			}
		}
		for range chunks { // let the reader end
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			chunks <- chunk{append([]byte(nil), buf[:n]...), time.Now().Add(d)}
		}
		if err != nil {
			break
		}
	}
	close(chunks)
	<-done
}
