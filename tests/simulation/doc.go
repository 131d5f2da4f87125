// Package simulation runs PADME in the simulator under faults drawn from a seed, and
// after each round of them demands that whoever waits is served within a bound.
// docs/robustness.md says how to run it and what the faults are.
package simulation
