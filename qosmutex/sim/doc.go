// Package sim is a deterministic discrete-event simulator for the lock: it runs
// any [protocol.Machine] in virtual time over a simulated network, drives it with
// a workload or a recorded load, breaks what a test asks it to break, checks after
// every event that no two participants are inside the same resource and that
// fences rise, and measures what the papers measure: see [Result].
//
// The same [Scenario] and seed give the same run, byte for byte. Unless the
// scenario is Fast, every message takes its encoded form on the way, so a machine
// that works here does not rely on a field that its kind does not carry.
//
// What happens at the same instant happens in the order of [Order]; the numbers
// of the papers depend on it.
package sim
