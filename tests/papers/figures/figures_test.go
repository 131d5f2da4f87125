package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"padme/tests/extent"
)

// TestResultsAreUpToDate makes every figure and table again: they must come out as
// they stand in docs/results, byte by byte, and nothing else may stand there.
func TestResultsAreUpToDate(t *testing.T) {
	extent.Long(t, "every figure of docs/results is computed again")
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "docs", "results")
	files, err := generate("")
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, f := range files {
		made = append(made, f.name)
		stands, err := os.ReadFile(filepath.Join(folder, f.name))
		if err != nil {
			t.Errorf("%v: run make papers", err)
			continue
		}
		if !bytes.Equal(stands, f.data) {
			t.Errorf("%s is not what comes out now: %s; run make papers and look at what changed", f.name, firstDifference(stands, f.data))
		}
	}
	stand, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range stand {
		if !slices.Contains(made, e.Name()) {
			t.Errorf("%s is in %s, but nothing makes it", e.Name(), folder)
		}
	}
}

// firstDifference shows the lines at which two texts part.
func firstDifference(stands, now []byte) string {
	a, b := bytes.Split(stands, []byte("\n")), bytes.Split(now, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			return "it has\n\t" + string(a[i]) + "\nwhere now comes\n\t" + string(b[i])
		}
	}
	return "one is the beginning of the other"
}

func TestUnknownPagesAreRefused(t *testing.T) {
	if files, err := generate("chubby"); err == nil {
		t.Errorf("%d files for a page that there is not", len(files))
	}
}

func TestNumbersAreWrittenAlike(t *testing.T) {
	for _, c := range []struct {
		value    float64
		decimals int
		want     string
	}{{1.25, 1, "1.2"}, {-0.001, 2, "0.00"}, {-0.01, 2, "-0.01"}, {0, 0, "0"}, {100, 0, "100"}} {
		if got := number(c.value, c.decimals); got != c.want {
			t.Errorf("number(%v, %d) is %q, want %q", c.value, c.decimals, got, c.want)
		}
	}
}
