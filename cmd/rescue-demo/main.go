// Rescue-demo is the search and rescue scenario which motivates PADME, as a
// program: robots wander through a disaster area, and whoever sees the most
// survivors gets one of the few free frequencies to send pictures home.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait for the robots
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
