//go:build race

package explore

// raceDetector makes everything ten times slower; searches are shorter then.
const raceDetector = true
