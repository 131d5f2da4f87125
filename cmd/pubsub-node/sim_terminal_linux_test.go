package main

import "testing"

func TestSimAtATerminalShowsProgressAndStops(t *testing.T) {
	t.Parallel()
	s := startShell(t, "")
	s.types("pubsub-node sim --duration 100000h\n", "million events per second")
	s.types("\x03", "interrupted by interrupt: the result is that of the first")
	s.types("echo code=$?\n", "code=130")
	s.types("pubsub-node sim --compare all-models --duration 100000h\n", "0 of 16 runs done")
	s.types("\x03", "0 of 16 runs were over")
}
