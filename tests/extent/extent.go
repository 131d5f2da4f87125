// Package extent says how much the tests do:
//
//	go test -short ./...           no real processes, no long searches, a few seeds
//	go test ./...                  every kind of test, with a share of the seeds and rounds
//	PADME_FULL=1 go test ./...     all of them (make full)
//
// What a share leaves out is more of the same: other seeds, other rounds, a larger
// bound. A test whose point would be lost is not divided.
package extent

import (
	"os"
	"testing"
)

// Full tells whether everything is asked for.
func Full() bool { return os.Getenv("PADME_FULL") != "" }

// Of is whole if everything is asked for, else share. It is the default of a flag by
// which a test's amount can be set by itself.
func Of[T any](share, whole T) T {
	if Full() {
		return whole
	}
	return share
}

// NotShort skips a test under -short; why says what it takes.
func NotShort(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: " + why)
	}
}

// InShort is few under -short, else n.
func InShort[T any](few, n T) T {
	if testing.Short() {
		return few
	}
	return n
}
