// Command times runs go test and prints how long it took: in all, by package, and the
// slowest tests. Its arguments are those of go test; without any it runs ./... once.
//
//	go run ./tests/times
//	go run ./tests/times -short ./...
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// slowest is how many tests are listed.
const slowest = 30

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// took is how long a package or a test ran.
type took struct {
	name    string
	seconds float64
}

// result is what the lines of go test -json say.
type result struct {
	packages, tests []took
	failed          []string
	said            map[string]string // what each package and test printed
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("times: ")
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"./..."}
	}
	run := exec.Command("go", append([]string{"test", "-json", "-count=1"}, args...)...)
	run.Stderr = os.Stderr
	out, err := run.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	began := time.Now()
	if err := run.Start(); err != nil {
		log.Fatal(err)
	}
	r, err := read(out)
	if err != nil {
		log.Fatal(err)
	}
	ended := run.Wait()
	r.write(os.Stdout, time.Since(began))
	if ended != nil {
		log.Fatalf("go test: %v", ended)
	}
}

// read reads the lines of go test -json until they end. A line that is not JSON, such
// as one of the compiler, is printed as it is.
func read(lines io.Reader) (*result, error) {
	r := &result{said: map[string]string{}}
	input := bufio.NewReader(lines)
	for {
		line, err := input.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.add(e)
			} else {
				os.Stderr.Write(line)
			}
		}
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *result) add(e event) {
	name := strings.TrimSpace(e.Package + " " + e.Test)
	switch e.Action {
	case "output":
		r.said[name] += e.Output
	case "fail":
		r.failed = append(r.failed, name)
		fallthrough
	case "pass":
		switch {
		case e.Test == "":
			r.packages = append(r.packages, took{name, e.Elapsed})
		case !strings.Contains(e.Test, "/"): // a subtest's time is part of its test's
			r.tests = append(r.tests, took{name, e.Elapsed})
		}
	}
}

// write prints what failed, packages and tests by time, and the total.
func (r *result) write(w io.Writer, wall time.Duration) {
	for _, name := range r.failed {
		fmt.Fprintf(w, "== failed: %s\n%s", name, r.said[name])
	}
	bySeconds := func(a, b took) int { return cmp.Compare(b.seconds, a.seconds) }
	slices.SortStableFunc(r.packages, bySeconds)
	slices.SortStableFunc(r.tests, bySeconds)
	sum := 0.0
	fmt.Fprintln(w, "seconds  package")
	for _, p := range r.packages {
		sum += p.seconds
		fmt.Fprintf(w, "%7.1f  %s\n", p.seconds, p.name)
	}
	fmt.Fprintf(w, "\nseconds  the %d slowest of %d tests\n", min(slowest, len(r.tests)), len(r.tests))
	for _, t := range r.tests[:min(slowest, len(r.tests))] {
		fmt.Fprintf(w, "%7.1f  %s\n", t.seconds, t.name)
	}
	fmt.Fprintf(w, "\n%.1f seconds in all, building included; the packages add up to %.1f\n", wall.Seconds(), sum)
}
