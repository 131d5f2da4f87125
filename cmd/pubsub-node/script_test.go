//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"padme/pubsub"
	"padme/tests/certs"
	"padme/tests/extent"
)

// patienceInTests bounds every waiting in these tests.
const patienceInTests = 15 * time.Second

func TestScripts(t *testing.T) {
	t.Parallel()
	extent.NotShort(t, "real processes")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Condition: func(name string) (bool, error) {
			if script, ok := strings.CutPrefix(name, "long:"); ok { // of one that others stand for
				return extent.Runs("TestScripts/" + script), nil
			}
			if name != "root" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"broker":     scriptBroker,
			"stopbroker": scriptStopBroker,
			"silence":    scriptSilence,
			"exits":      scriptExits,
			"waitfor":    scriptWaitFor,
			"publish":    scriptPublish,
			"httpget":    scriptHTTPGet,
			"certs":      scriptCerts,
		},
	})
}

// scriptBroker runs `pubsub-node broker` with the given flags until the end of
// the script and sets PADME_BROKER and BROKER_ADDR. Its output is in broker.log.
func scriptBroker(ts *testscript.TestScript, _ bool, args []string) {
	ready := ts.MkAbs("ready")
	_ = os.Remove(ready)
	log, err := os.Create(ts.MkAbs("broker.log"))
	ts.Check(err)
	defer log.Close()
	cmd := exec.Command("pubsub-node", append([]string{"broker", "--listen", "127.0.0.1:0", "--timing", "local", "--ready-file", ready}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = ts.MkAbs(".")
	ts.Check(cmd.Start())
	ts.Defer(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	await(ts, "the broker", func() bool { _, err := os.Stat(ready); return err == nil })
	url := strings.TrimSpace(ts.ReadFile("ready"))
	ts.Setenv("PADME_BROKER", url)
	_, addr, _ := strings.Cut(url, "://")
	ts.Setenv("BROKER_ADDR", addr) // for another one in its place
	ts.Setenv("BROKER_PID", strconv.Itoa(cmd.Process.Pid))
}

// scriptStopBroker sends TERM to the broker and waits until its port is closed.
func scriptStopBroker(ts *testscript.TestScript, _ bool, _ []string) {
	pid, err := strconv.Atoi(ts.Getenv("BROKER_PID"))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGTERM))
	_, addr, _ := strings.Cut(ts.Getenv("PADME_BROKER"), "://")
	await(ts, "the end of the broker", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

// scriptSilence sets PADME_BROKER to a listener that never answers.
func scriptSilence(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv("PADME_BROKER", "mqtt://"+l.Addr().String())
}

// scriptExits runs a command and compares its exit code: exits CODE COMMAND…
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG]...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptWaitFor waits until a file is there, and contains a text if one is given.
func scriptWaitFor(ts *testscript.TestScript, _ bool, args []string) {
	file := ts.MkAbs(args[0])
	await(ts, strings.Join(args, " "), func() bool {
		text, err := os.ReadFile(file)
		return err == nil && (len(args) < 2 || strings.Contains(string(text), args[1]))
	})
}

func await(ts *testscript.TestScript, what string, done func() bool) {
	for end := time.Now().Add(patienceInTests); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(ts.MkAbs("broker.log"))
			ts.Fatalf("waited in vain for %s; the broker says: %s", what, log)
		}
	}
}

// scriptPublish publishes what no participant of ours would: publish TOPIC FILE,
// TOPIC below R with unencoded levels. The message is retained, unless it is to a participant or a request.
func scriptPublish(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patienceInTests)
	defer cancel()
	p, err := pubsub.Join(ctx, ts.Getenv("PADME_BROKER"), "stranger")
	ts.Check(err)
	retain := !strings.HasPrefix(args[0], "node/") && !strings.HasSuffix(args[0], "/request")
	ts.Check(p.PublishRaw(pubsub.Main, strings.Split(args[0], "/"), []byte(ts.ReadFile(args[1])), retain))
	ts.Check(p.Close(ctx)) // sends what is queued first
}

// scriptHTTPGet writes the body at a URL, which stands in a file, to another file.
func scriptHTTPGet(ts *testscript.TestScript, _ bool, args []string) {
	client := http.Client{Timeout: patienceInTests, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(ts.ReadFile(args[0]))
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(ts.MkAbs("."), args[1]), body, 0o644))
}

// scriptCerts writes the certificates of an authority, ca.pem: host of 127.0.0.1,
// the clients robot and nobody, and old, a robot whose time is over. alien is a robot
// of another authority, alien-ca.pem.
func scriptCerts(ts *testscript.TestScript, _ bool, _ []string) {
	valid, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	ca, alien := certs.New(), certs.New()
	dir := ts.MkAbs(".")
	ts.Check(ca.Write(ts.MkAbs("ca.pem")))
	ts.Check(alien.Write(ts.MkAbs("alien-ca.pem")))
	ts.Check(certs.WritePair(dir, "host", ca.Issue("host", valid)))
	ts.Check(certs.WritePair(dir, "robot", ca.Issue("robot", valid)))
	ts.Check(certs.WritePair(dir, "nobody", ca.Issue("nobody", valid)))
	ts.Check(certs.WritePair(dir, "old", ca.Issue("robot", past)))
	ts.Check(certs.WritePair(dir, "alien", alien.Issue("robot", valid)))
}
