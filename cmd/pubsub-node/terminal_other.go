//go:build !unix

package main

import "padme/cmd/pubsub-node/internal/supervisor"

// standardTerminal returns nil where a command has no terminal of its own.
func standardTerminal() supervisor.Terminal { return nil }
