// Package bench holds the experiments of the papers as scenarios of the simulator,
// for the tests that hold the algorithms to the papers' numbers and for whoever
// draws the figures.
package bench
