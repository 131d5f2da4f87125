//go:build race

package broker_test

// raceDetector makes everything ten times slower; floods are smaller then.
const raceDetector = true
