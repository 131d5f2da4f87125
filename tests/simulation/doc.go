// Package simulation runs PADME in the simulator under faults drawn from a seed, and
// after each round of them demands that all waiters are served within a bound.
// docs/robustness.md says how to run it and what the faults are, docs/testing.md how to
// reproduce a seed.
package simulation
