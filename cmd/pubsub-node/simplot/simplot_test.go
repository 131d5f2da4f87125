package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"padme/tests/extent"
	"padme/tests/process"
)

// TestPlots draws what pubsub-node prints.
func TestPlots(t *testing.T) {
	extent.NotShort(t, "real processes")
	dir := t.TempDir()
	node := process.Program(t, "padme/cmd/pubsub-node")
	for _, test := range []struct {
		file, args string
		shows      []string
	}{
		{"one.svg", "", []string{">A (0)<", "padme:fair-forward-use-use: entries in 360s"}},
		{"many.svg", "--nodes 100 --latency 10ms", []string{">priority<"}},
		{"compared.svg", "--compare padme:FRUU,raymond --duration 20s", []string{">padme:FRUU<", ">raymond<", ">priority 2<", "Entries in 20s"}},
		{"all.png", "--compare all-models --duration 20s", []string{"PNG"}},
	} {
		printed, err := exec.Command(node, append([]string{"sim", "--json"}, strings.Fields(test.args)...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, test.file)
		if err := plot(file, bytes.NewReader(printed)); err != nil {
			t.Errorf("%s: %v", test.file, err)
			continue
		}
		drawn, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.shows {
			if !bytes.Contains(drawn, []byte(want)) {
				t.Errorf("%s does not show %q", test.file, want)
			}
		}
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	for printed, want := range map[string]string{
		"":               `run 1: EOF: this reads what "pubsub-node sim --json" prints`,
		"entries 12\n":   "run 1: invalid character",
		`{"entries":{}}`: "run 1: no algorithm",
		`{"scenario":{"algorithm":"a"},"nodes":[{"node":"A"}],"entries":{"byNode":[1],"byPriority":{"x":1}}}`:  `the priority "x" is no whole number`,
		`{"scenario":{"algorithm":"a"},"nodes":[{"node":"A"}],"entries":{"byNode":[1,2],"byPriority":{}}}`:     "not the entries of each participant",
		`{"scenario":{"algorithm":"a"},"nodes":[{"node":"A"}],"entries":{"byNode":[-1],"byPriority":{"0":1}}}`: "no bar is that short",
	} {
		err := plot(filepath.Join(t.TempDir(), "a.svg"), strings.NewReader(printed))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", printed, err, want)
		}
	}
	if err := plot("chart.pdf", strings.NewReader("")); err == nil || !strings.Contains(err.Error(), "*.svg or *.png") {
		t.Errorf("chart.pdf: %v", err)
	}
}
