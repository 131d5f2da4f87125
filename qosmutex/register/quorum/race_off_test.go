//go:build !race

package quorum_test

const defaultSeeds = 60

// thousand is how many locks the root of a thousand has.
const thousand = 1024
