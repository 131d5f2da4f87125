// Command figures regenerates the figures and tables of the papers, measured and
// side by side with what the papers state: SVG and Markdown, the same bytes in every
// run.
//
//	go run ./tests/papers/figures -out docs/results
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "docs/results", "`folder` to write into")
	only := flag.String("only", "", "make one `page` only: "+pageNames())
	flag.Parse()
	if err := write(*out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// write makes the files of one page, or of all of them, and puts them into a folder.
func write(folder, only string) error {
	files, err := generate(only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(folder, f.name), f.data, 0o644); err != nil {
			return err
		}
		fmt.Println(filepath.Join(folder, f.name))
	}
	return nil
}
