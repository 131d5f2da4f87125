//go:build race

package quorum_test

// The detector slows a bubble down tenfold.
const defaultSeeds = 8

// thousand is how many locks the root of a thousand has.
const thousand = 128
