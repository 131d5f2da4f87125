// Command simplot draws what `pubsub-node sim --json` prints: the entries of each
// participant, or of each priority if there are many, and for several runs their entries by
// priority, side by side.
//
//	pubsub-node sim --json | go run ./cmd/pubsub-node/simplot entries.svg
//	pubsub-node sim --compare all-models --json | go run ./cmd/pubsub-node/simplot models.png
//
// It is a program of its own so that pubsub-node links nothing that draws.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"padme/qosmutex/sim/chart"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pubsub-node sim --json | simplot FILE.svg (or FILE.png)")
		os.Exit(2)
	}
	if err := plot(os.Args[1], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "simplot:", err)
		os.Exit(1)
	}
}

// plot draws all runs that it reads into one file.
func plot(file string, from io.Reader) error {
	if _, err := chart.FormatOf(file); err != nil {
		return fmt.Errorf("%s: draw into a file named *.svg or *.png", file)
	}
	runs, err := read(from)
	if err != nil {
		return err
	}
	if len(runs) == 1 {
		return chart.Save(file, one(&runs[0]))
	}
	return chart.Save(file, comparison(runs))
}

func read(from io.Reader) ([]run, error) {
	var runs []run
	for d := json.NewDecoder(from); ; {
		var r run
		err := d.Decode(&r)
		if errors.Is(err, io.EOF) && len(runs) > 0 {
			return runs, nil
		}
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return nil, fmt.Errorf("run %d: %w: this reads what \"pubsub-node sim --json\" prints", len(runs)+1, err)
		}
		runs = append(runs, r)
	}
}
