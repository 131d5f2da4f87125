//go:build race

package bubble

// RaceDetector says whether the tests run with the race detector.
const RaceDetector = true
