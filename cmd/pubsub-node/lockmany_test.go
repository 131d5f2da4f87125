//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/extent"
)

var crowd = flag.Int("crowd", extent.Of(100, 200), "how many commands wait for one lock; a multiple of 100")

// TestCommandsAtOnce: all are served, one at a time, and of those that wait
// the most important is next. They are typed in a terminal: beside a broker that is in the
// same session, Linux would give that the share of one process among hundreds. They come a
// hundred at a time, as a machine may need a minute to start them all.
func TestCommandsAtOnce(t *testing.T) {
	extent.Long(t, "hundreds of processes")
	const priorities = 5
	commands := *crowd
	// While they start the root may get no processor for seconds: as --ttl 1m does for users.
	url := startBroker(t, qosmutex.WAN().WithTTL(time.Minute))
	dir := t.TempDir()
	free := holdCrane(t, url)
	terminal := exec.Command("sh", "-c", `i=0; while [ $i -lt `+strconv.Itoa(commands)+` ]; do
		p=$((i % `+strconv.Itoa(priorities)+`))
		{ pubsub-node lock crane -p $p --id c$i -- sh -c "echo in $p \$PADME_FENCE >>log; echo out $p \$PADME_FENCE >>log" 2>err$i || echo "command $i: exit code $?" >>failed; } &
		i=$((i + 1))
		[ $((i % 100)) -ne 0 ] || until [ -e go$i ]; do sleep 0.1; done
	done; wait`)
	terminal.Dir, terminal.Env = dir, append(os.Environ(), "PADME_BROKER="+url)
	terminal.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := terminal.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- terminal.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-terminal.Process.Pid, syscall.SIGKILL)
		if failed, err := os.ReadFile(filepath.Join(dir, "failed")); err == nil {
			t.Error(string(failed), said(t, dir))
		}
	})
	late := 0
	for come := 100; come <= commands; come += 100 {
		late = come - awaitWaiting(t, url, come)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("go", come)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	free()
	begun := time.Now()
	select {
	case <-ended:
	case <-time.After(5 * time.Minute):
		t.Fatal("they are not served")
	}
	t.Logf("%d commands in %v", commands, time.Since(begun).Round(time.Millisecond))
	checkLog(t, filepath.Join(dir, "log"), commands, late)
}

// holdCrane holds the lock that the commands ask for, as a member, whose hold lasts as long as
// the TTL where a client's ends with its lease, until the function is called.
func holdCrane(t *testing.T, url string) (free func()) {
	t.Helper()
	p, err := pubsub.Join(t.Context(), url, "first")
	if err != nil {
		t.Fatal(err)
	}
	c, err := qosmutex.Open(t.Context(), p, "crane")
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.Lock(t.Context(), qosmutex.DefaultResource)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(h.Unlock(), c.Close(t.Context()), p.Close(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// said is what the commands have printed as errors.
func said(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "err*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 0 {
			fmt.Fprintf(&all, "%s: %s", filepath.Base(f), text)
		}
	}
	return all.String()
}

// checkLog checks that nobody overlapped, fences rise, and priorities were served in order,
// but for so many that may have come late.
func checkLog(t *testing.T, path string, commands, late int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2*commands {
		t.Fatalf("%d lines, want %d", len(lines), 2*commands)
	}
	var last uint64
	var order []string
	for i := 0; i < len(lines); i += 2 {
		in := strings.Fields(lines[i])
		if lines[i+1] != "out"+strings.TrimPrefix(lines[i], "in") || len(in) != 3 {
			t.Fatalf("overlap at line %d: %q, %q", i+1, lines[i], lines[i+1])
		}
		fence, err := strconv.ParseUint(in[2], 10, 64)
		if err != nil || fence <= last {
			t.Fatalf("fence %s after %d", in[2], last)
		}
		last = fence
		order = append(order, in[1])
	}
	if n := outOfOrder(order); n > late {
		t.Errorf("%d are out of order, and at most %d came late; served in the order of priorities %v", n, late, order)
	}
}

// outOfOrder is how many must be left out for the rest to be in order.
func outOfOrder(order []string) int {
	var ends []string // of the longest sequences in order, by length
	for _, p := range order {
		i, _ := slices.BinarySearchFunc(ends, p, func(end, p string) int {
			if end <= p {
				return -1
			}
			return 1
		})
		if i == len(ends) {
			ends = append(ends, p)
		} else {
			ends[i] = p
		}
	}
	return len(order) - len(ends)
}

// awaitWaiting waits until so many wait for the lock crane, as its root publishes, or for as
// long as it may take on a busy machine, where some always lose their place for a moment. It
// returns how many wait.
func awaitWaiting(t *testing.T, url string, waiting int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := pubsub.Join(ctx, url, "observer", pubsub.Unannounced())
	if err != nil {
		t.Fatal(err)
	}
	defer leave(p)
	n, states, last := 0, 0, qosmutex.State{}
	for st, err := range qosmutex.WatchStates(ctx, p, "crane") {
		if err != nil {
			t.Fatal(err)
		}
		states, last = states+1, st
		if n = st.Waiting; n == waiting {
			break
		}
	}
	if n < waiting*9/10 {
		t.Fatalf("%d wait, want %d; the last of %d states was %+v", n, waiting, states, last)
	}
	return n
}
