package broker

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// crowd is a listener at which so many wait.
type crowd struct {
	net.Listener
	left int
}

func (c *crowd) Accept() (net.Conn, error) {
	if c.left--; c.left < 0 {
		return nil, net.ErrClosed
	}
	return nil, nil
}

// Those who wait to be accepted do not all run before whoever is inside.
func TestAcceptingLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var waiting, most atomic.Int64
	accept(&crowd{left: 1000}, nil, func(net.Conn) {
		most.Store(max(most.Load(), waiting.Add(1)))
		go waiting.Add(-1)
	}, func(err error) { t.Error(err) })
	if most.Load() > 100 {
		t.Errorf("%d were accepted before anybody else ran", most.Load())
	}
}
