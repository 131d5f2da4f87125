//go:build !linux

package realrun

import "time"

// rest waits that long, as precisely as this system can.
func rest(d time.Duration) { time.Sleep(d) }
