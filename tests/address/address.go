// Package address finds addresses for the servers of tests that must be found again
// under the same one after a restart.
package address

import (
	"net"
	"testing"
)

// Free returns an address of this machine on which nobody listens now. Another process
// may take it before the caller does.
func Free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
