package main

import (
	"testing"

	"padme/qosmutex"
)

func TestRatesAtATerminalRunOn(t *testing.T) {
	t.Parallel()
	url := startBroker(t, qosmutex.LAN())
	startNode(t, t.TempDir(), url, "pub", "weather", "1", "--rate", "20", "--count", "100000")
	s := startShell(t, url)
	s.types("pubsub-node topic hz weather --window 7\n", "stddev") // before it is interrupted
	s.types("\x03", "stddev")
	s.types("echo code=$?\n", "code=0")
}
