//go:build race

package quorum_test

// The detector slows a bubble down tenfold.
const defaultSeeds = 8
