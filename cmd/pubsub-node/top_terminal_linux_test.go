package main

import (
	"testing"

	"padme/qosmutex"
)

func TestTopAtATerminalStaysInPlace(t *testing.T) {
	t.Parallel()
	s := startShell(t, startBroker(t, qosmutex.LAN()))
	s.types("pubsub-node top --interval 100ms\n", "\x1b[H")
	s.types("", "\x1b[K\x1b[J") // again, over the first
	s.types("\x03", "$ ")
	s.types("echo code=$?\n", "code=0")
	s.types("pubsub-node top --interval 100ms\n", "\x1b[K\x1b[J")
	s.types("\x1a", "Stopped")
	s.types("echo ec\"\"hoed", "echo ec") // the shell's terminal shows what is typed
	s.types("\n", "echoed")
	s.types("fg\n", "\x1b[K\x1b[J")
	s.types("q", "$ ")
	s.types("echo code=$?\n", "code=0")
	s.types("echo ec\"\"hoed", "echo ec")
	s.types("\n", "echoed")
	s.types("TERM=dumb pubsub-node top -n 1\n", "0 locks")
	if s.output.Has("\x1b[H") {
		t.Error("a dumb terminal is told to move its cursor")
	}
	s.types("pubsub-node top -n 1 | cat\n", "0 locks")
	if s.output.Has("\x1b[H") {
		t.Error("a pipe is told to move a cursor")
	}
}
