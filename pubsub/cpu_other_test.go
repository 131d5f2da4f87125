//go:build !linux

package pubsub

import "time"

// processCPU is not known here: the benchmarks' "cpu-ratio" is not a number then.
func processCPU() time.Duration { return 0 }
