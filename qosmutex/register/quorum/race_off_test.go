//go:build !race

package quorum_test

const defaultSeeds = 60
