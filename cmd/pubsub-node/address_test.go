package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// Whoever writes an address in another form is told which one is meant.
func TestAddressesInOtherForms(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"broker --listen mqtt://127.0.0.1:7883", "write the address alone: 127.0.0.1:7883"},
		{"broker --ws ws://127.0.0.1:8083/mqtt", "write the address alone: 127.0.0.1:8083"},
		{"broker --listen ::1", "add a port, as in [::1]:1883"},
		{"broker --listen 127.0.0.1", "add a port, as in 127.0.0.1:1883"},
		{"broker --metrics 9090", "write 127.0.0.1:9090 for this machine only, or :9090"},
		{"serve crane --metrics http://127.0.0.1:9090", "write the address alone: 127.0.0.1:9090"},
		{"ui --web http://127.0.0.1:9090/", "write the address alone: 127.0.0.1:9090"},
		{"ui --web 9090", "write 127.0.0.1:9090 for this machine only, or :9090"},
	} {
		t.Run(c.args, func(t *testing.T) {
			root := newRoot()
			root.SetArgs(strings.Fields(c.args))
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			err := root.ExecuteContext(t.Context())
			var e *exitError
			if !errors.As(err, &e) || e.code != exitUsage || !strings.Contains(err.Error(), c.says) {
				t.Errorf("says %v", err)
			}
		})
	}
}
