// Package candidate is a participant of a lock topic that can become its root: the
// PADME machine (package padme), and the one that decides who is the root (package
// lease), as one machine without clock, network or goroutine.
//
// It is driven like any other [protocol.Machine]. Beyond that, its driver asks the
// register what [Machine.Request] says after each Step, and hands the answer to
// [Machine.Answer].
package candidate
