// Package extent says how much the tests do:
//
//	go test -short ./...           no real processes, no long searches, a few seeds
//	go test ./...                  every kind of test, with a share of the seeds and rounds
//	PADME_FULL=1 go test ./...     all of them, and the long ones (make full)
//
// What a share leaves out is more of the same: other seeds, other rounds, a larger
// bound. A test whose point would be lost is not divided.
package extent

import (
	"flag"
	"hash/fnv"
	"os"
	"strconv"
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

// Long skips a test that takes many seconds, or a processor for some, where others of its package
// show the same kind of thing in less; why says what it does with them. It runs with make full, and
// wherever -run names tests. The gate runs some of them, by turns: an eighth for each commit.
func Long(t testing.TB, why string) {
	t.Helper()
	if !Runs(t.Name()) {
		t.Skip("long, see make full, or name it with -run: " + why)
	}
}

// Runs reports whether a long test of that name is to run.
func Runs(name string) bool { return Full() || named() || Turn(name, 8) }

func named() bool {
	run := flag.Lookup("test.run")
	return run != nil && run.Value.String() != ""
}

// Turn reports whether the gate runs what has that name now: one of so many, for each commit others.
// The number in PADME_TURN, which is hexadecimal, says which; without it, it is the turn of none.
func Turn(name string, of uint64) bool {
	turn, err := strconv.ParseUint(os.Getenv("PADME_TURN"), 16, 64)
	if err != nil {
		return false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return uint64(h.Sum32())%of == turn%of
}
