package scenario

import "padme/qosmutex"

// Timing is that of all participants of a run: everything is on one machine.
// Lost holds are published with the time at which their robot noticed. With a
// larger bound on the drift the root waits a tenth of the TTL for it, which even
// a busy machine keeps, before it gives the frequency to another.
func Timing() qosmutex.Timing {
	t := qosmutex.Local()
	t.Drift = 0.05
	return t
}
