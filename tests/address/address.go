// Package address finds addresses for the servers of tests that must be found again
// under the same one after a restart.
package address

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports lie below those that systems give to whoever asks for any port (from
// 32768 on Linux, from 49152 elsewhere): a test beside this one, or the client's end
// of some connection, would take one of those between here and the server's start.
const lowest, highest = 10000, 32767

// Free returns an address of this machine on which nobody listens now. It is unlikely
// but not impossible that another process takes it before the caller does.
func Free(t testing.TB) string {
	t.Helper()
	addresses, err := List(1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}

// List returns n addresses as of Free, each another one.
func List(n int) ([]string, error) {
	var addresses []string
	var err error
	for range 100 + n {
		if len(addresses) == n {
			return addresses, nil
		}
		var l net.Listener
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.IntN(highest-lowest+1)))
		if err != nil {
			continue
		}
		defer l.Close() // all of them at the end, so that they differ
		addresses = append(addresses, l.Addr().String())
	}
	return nil, fmt.Errorf("address: %d free ports of %d: %w", len(addresses), n, err)
}
