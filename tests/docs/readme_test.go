//go:build linux

package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"padme/tests/extent"
)

// robot makes README's Go code a program that does what it says, once.
const robot = `package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
)

%s
func transmit(_ context.Context, frequency string, fence uint64) error {
	fmt.Println("robot-7 sends on", frequency, fence > 0)
	return nil
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := share(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
`

// README's Go code, as it is printed, runs against README's broker, as it is printed but
// for a port of its own: twice, as what the first run declared is there for the second.
func TestREADMEsGoRunsAtREADMEsBroker(t *testing.T) {
	extent.NotShort(t, "real processes")
	readme := read(t, "README.md")
	if !strings.Contains(readme, "go run ./cmd/pubsub-node broker ") {
		t.Fatal("README starts another broker than this test")
	}
	_, code, found := strings.Cut(readme, "```go\n")
	code, _, _ = strings.Cut(code, "```")
	if !found {
		t.Fatal("README has no Go code")
	}
	dir := t.TempDir()
	source, program, node := filepath.Join(dir, "robot.go"), filepath.Join(dir, "robot"), filepath.Join(dir, "pubsub-node")
	if err := os.WriteFile(source, []byte(fmt.Sprintf(robot, code)), 0o644); err != nil {
		t.Fatal(err)
	}
	for out, what := range map[string]string{program: source, node: "padme/cmd/pubsub-node"} {
		if text, err := exec.Command("go", "build", "-o", out, what).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	ready := filepath.Join(dir, "ready")
	broker := exec.Command(node, "broker", "--listen", "127.0.0.1:0", "--ready-file", ready)
	var log bytes.Buffer
	broker.Stdout, broker.Stderr = &log, &log
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = broker.Process.Kill()
		_ = broker.Wait()
	})
	var url []byte
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		var err error
		if url, err = os.ReadFile(ready); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the broker does not serve: %s", &log)
		}
	}
	for range 2 {
		text, err := exec.Command(program, strings.TrimSpace(string(url))).CombinedOutput()
		if want := "robot-7 sends on 146.52 true\n"; err != nil || string(text) != want {
			t.Errorf("%v: %q, want %q", err, text, want)
		}
	}
}
