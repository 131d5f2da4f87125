//go:build !unix

package main

import "context"

// quitKey returns ctx where keys are not read.
func quitKey(ctx context.Context) (quitting context.Context, restore func()) { return ctx, func() {} }
