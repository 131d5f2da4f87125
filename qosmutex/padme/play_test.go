package padme

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestPlay is private to a debugging session.
func TestPlay(t *testing.T) {
	f := os.Getenv("PADME_PLAY")
	if f == "" {
		return
	}
	b, _ := os.ReadFile(f)
	w := newWorld()
	w.verbose = true
	for _, l := range strings.Split(string(b), "\n") {
		w.log("> %s", l)
		err := w.do(l)
		for _, s := range w.trace {
			fmt.Println(s)
		}
		w.trace = nil
		if err != nil || w.failure != nil {
			fmt.Println("FAIL", err, w.failure)
			return
		}
	}
}
