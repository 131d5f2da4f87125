// Command size prints how large the repository is: for each area and package the lines
// of code, of comments and blank ones, of the program and of its tests apart, and the
// words of the documentation. It counts the files that git knows, in the folder in which
// it is called.
//
//	go run ./tests/size
package main

import (
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
)

// count is what some files have. A line with code and a comment is one of code.
type count struct{ code, comment, blank int }

func (c *count) add(d count) {
	c.code += d.code
	c.comment += d.comment
	c.blank += d.blank
}

func (c count) lines() int { return c.code + c.comment + c.blank }

// size is the size of one folder, or of several.
type size struct{ program, tests count }

func (s *size) add(t size) {
	s.program.add(t.program)
	s.tests.add(t.tests)
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("size: ")
	listed, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		log.Fatalf("listing the files of the repository with git: %v", err)
	}
	folders := map[string]*size{}
	words := 0
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		form, counted := forms[path.Ext(name)]
		if !counted && path.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, but not yet from the index
		}
		if err != nil {
			log.Fatal(err)
		}
		if !counted {
			words += len(strings.Fields(string(text)))
			continue
		}
		folder := path.Dir(name)
		if folders[folder] == nil {
			folders[folder] = &size{}
		}
		if isTest(name) {
			folders[folder].tests.add(form(string(text)))
		} else {
			folders[folder].program.add(form(string(text)))
		}
	}
	write(os.Stdout, folders)
	fmt.Printf("\n%d words of documentation (*.md)\n", words)
}

// isTest tells whether a file is needed by tests only.
func isTest(name string) bool {
	if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".test.mjs") || strings.HasSuffix(name, ".test.js") {
		return true
	}
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		switch part {
		case "test", "tests", "testdata", "registertest":
			return true
		}
	}
	return false
}

// write prints a table: each area, the first part of a path, with its folders below it.
func write(w io.Writer, folders map[string]*size) {
	areas := map[string]*size{}
	var all size
	for folder, s := range folders {
		area, _, _ := strings.Cut(folder, "/")
		if areas[area] == nil {
			areas[area] = &size{}
		}
		areas[area].add(*s)
		all.add(*s)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\twithout tests\t\t\t\ttests\t\t\t\t\n")
	fmt.Fprint(table, "lines\tcode\tcomment\tblank\tlines\tcode\tcomment\tblank\t \n")
	row := func(name string, s size) {
		fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t %s\n",
			s.program.lines(), s.program.code, s.program.comment, s.program.blank,
			s.tests.lines(), s.tests.code, s.tests.comment, s.tests.blank, name)
	}
	for _, area := range slices.Sorted(maps.Keys(areas)) {
		row(area+"/", *areas[area])
		for _, folder := range slices.Sorted(maps.Keys(folders)) {
			if strings.HasPrefix(folder, area+"/") {
				row("  "+folder, *folders[folder])
			}
		}
	}
	row("all", all)
	if err := table.Flush(); err != nil {
		log.Fatal(err)
	}
}
