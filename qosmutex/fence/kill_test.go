//go:build unix

package fence

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// countEnv makes the test binary a process that presents rising fences to the
// guard at this path until it is killed.
const countEnv = "PADME_TEST_FENCES"

func TestMain(m *testing.M) {
	path := os.Getenv(countEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	g, err := Open(path)
	for fence := uint64(1); err == nil; fence++ {
		if err = g.Admit("a", fence); errors.Is(err, ErrStale) {
			err = nil
		} else if err == nil {
			fmt.Println(fence)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestKilledProcessForgetsNothing kills a process again and again while it
// writes: what it had been admitted with, its successor has seen.
func TestKilledProcessForgetsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fences")
	var last uint64
	for round := range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), countEnv+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if n == round {
				_ = cmd.Process.Kill()
			}
			fence, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil || fence < last {
				t.Fatalf("round %d: %q after %d", round, lines.Text(), last)
			}
			last = fence
		}
		_ = cmd.Wait()
		g, err := Open(path)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := g.Admit("a", last-1); last > 1 && !errors.Is(err, ErrStale) {
			t.Fatalf("round %d: fence %d after %d: %v", round, last-1, last, err)
		}
	}
	if last < 10 {
		t.Errorf("%d fences", last)
	}
}
