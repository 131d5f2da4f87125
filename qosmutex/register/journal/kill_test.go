//go:build unix

package journal

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

// countEnv makes the test binary a process that writes rising numbers to the journal
// at this path, with and without a sync, and compacts it now and then, until it is killed.
const countEnv = "PADME_TEST_JOURNAL"

func TestMain(m *testing.M) {
	path := os.Getenv(countEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, count(path))
	os.Exit(1)
}

func count(path string) error {
	last := 0
	j, err := Open(path, "count", func(r []byte) error {
		n, err := strconv.Atoi(string(r))
		last = n
		return err
	})
	if err != nil {
		return err
	}
	unsynced, all := j.Unsynced()
	if !all && last > 0 {
		return errors.New("something is missing of what was not synced")
	}
	for _, r := range unsynced {
		n, err := strconv.Atoi(string(r))
		if err != nil {
			return err
		}
		last = max(last, n)
	}
	for err == nil {
		last++
		record := []byte(strconv.Itoa(last))
		switch {
		case j.WantsUnsynced() || last%11 == 0:
			err = j.BeginUnsynced(record)
		case last%7 == 0:
			err = j.Compact(record)
		case last%5 == 0:
			err = j.Append(record)
		default:
			err = j.Note(record)
		}
		fmt.Println(last)
	}
	return err
}

// TestKilledProcessForgetsNothing kills a process again and again while it writes:
// what it had acknowledged, its successor reads.
func TestKilledProcessForgetsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	last := 0
	for round := range 20 {
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
			got, err := strconv.Atoi(lines.Text())
			if err != nil || got <= last {
				t.Fatalf("round %d: %q after %d", round, lines.Text(), last)
			}
			last = got
		}
		_ = cmd.Wait()
	}
	if last < 20 {
		t.Errorf("%d numbers", last)
	}
}
