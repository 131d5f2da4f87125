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
		{"broker --listen mqtt://127.0.0.1:7883", "not a URL: write 127.0.0.1:7883"},
		{"broker --ws ws://127.0.0.1:8083/mqtt", "not a URL: write 127.0.0.1:8083"},
		{"broker --listen mqtt://user:secret@127.0.0.1:7883", "not a URL: write 127.0.0.1:7883"},
		{"broker --listen mqtt://localhost", "not a URL: write it as in 127.0.0.1:1883"},
		{"broker --listen ://", "not a URL: write it as in 127.0.0.1:1883"},
		{"broker --listen ::1", "in brackets, and its port after them, as in [::1]:1883"},
		{"broker --listen ::1:1883", "in brackets, and its port after them, as in [::1]:1883"},
		{"broker --listen 127.0.0.1", "add a port, as in 127.0.0.1:1883"},
		{"broker --metrics 9090", "write 127.0.0.1:9090 for this machine only, or :9090"},
		{"serve crane --metrics http://127.0.0.1:9090", "not a URL: write 127.0.0.1:9090"},
		{"ui --web http://127.0.0.1:9090/", "not a URL: write 127.0.0.1:9090"},
		{"ui --web 9090", "write 127.0.0.1:9090 for this machine only, or :9090"},
	} {
		t.Run(c.args, func(t *testing.T) {
			root := newRoot()
			root.SetArgs(strings.Fields(c.args))
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			err := root.ExecuteContext(t.Context())
			var e *exitError
			if !errors.As(err, &e) || e.code != exitUsage || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
				t.Errorf("says %v", err)
			}
		})
	}
}
