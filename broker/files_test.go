package broker

import (
	"net"
	"syscall"
	"testing"

	"padme/tests/bubble"
)

// failing is a listener that has no file left for so many connections.
type failing struct {
	net.Listener
	times int
}

func (l *failing) Accept() (net.Conn, error) {
	if l.times--; l.times < 0 {
		return nil, net.ErrClosed
	}
	return nil, syscall.EMFILE
}

// A listener that can accept nothing, twenty times a second, says so once a minute.
func TestFailedAcceptsDoNotFillTheLog(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		said := 0
		accept(&failing{times: 20 * 90}, nil, nil, func(error) { said++ }) // a minute and a half
		if said != 2 {
			t.Errorf("said %d times", said)
		}
	})
}

// Where few files may be open, half of them are for strangers.
func TestStrangersLeaveFiles(t *testing.T) {
	for files, want := range map[uint64]int{0: 4096, 1 << 20: 4096, 8192: 4096, 1024: 512, 1: 1} {
		l := DefaultLimits()
		if l.fitFiles(files) != (want != 4096) || l.Unauthenticated != want {
			t.Errorf("of %d files %d", files, l.Unauthenticated)
		}
	}
}
