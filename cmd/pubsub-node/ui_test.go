package main

import (
	"testing"

	"padme/tests/modules"
)

// TestPage runs the tests of the page's own logic.
func TestPage(t *testing.T) { modules.Test(t, "page/test/*.test.js") }

func TestWhoConnectsToTheBroker(t *testing.T) {
	for _, c := range []struct {
		web, broker string
		direct      bool
	}{
		{"127.0.0.1:8080", "ws://127.0.0.1:9001", true},
		{"localhost:0", "wss://broker.example", true},
		{":8080", "wss://broker.example/mqtt", true},
		{"127.0.0.1:8080", "ws://[::1]:9001", false},
		{":8080", "ws://localhost:9001", false},
		{"192.0.2.1:80", "ws://[::1]:9001", false},
		{"127.0.0.1:8080", "mqtt://127.0.0.1", false},
		{"127.0.0.1:8080", "ws://a,ws://b", false},
		{"127.0.0.1:8080", "host:1883", false},
	} {
		if f := (uiFlags{web: c.web}); f.direct(c.broker) != c.direct {
			t.Errorf("a page at %s connects to %s directly: %v", c.web, c.broker, !c.direct)
		}
	}
}
