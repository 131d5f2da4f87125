//go:build linux

package clients

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"padme/tests/address"
	"padme/tests/extent"
	"padme/tests/poll"
)

// theLock is what `lock -v` says that the lock itself took.
var theLock = regexp.MustCompile(`, lock ([0-9.]+) ms`)

// TestCommands prints how long a command takes whose work is done at once: under a lock of a
// broker that runs, under one that nobody has named before, and, to compare, without a lock
// and under those of others on this computer.
func TestCommands(t *testing.T) {
	extent.NotShort(t, "real processes")
	s := loneSite(t, "--data", t.TempDir())
	commands := []struct {
		name string
		argv func(i int) []string
	}{
		{"pubsub-node lock crane -- true", func(int) []string { return []string{bin, "lock", "--broker", s.url, "-v", "crane", "--", "true"} }},
		{"the same, a new lock each", func(i int) []string {
			return []string{bin, "lock", "--broker", s.url, "-v", fmt.Sprint("new-", i), "--", "true"}
		}},
		{"pubsub-node version", func(int) []string { return []string{bin, "version"} }},
		{"flock FILE true", func(int) []string { return []string{"flock", filepath.Join(s.dir, "file"), "true"} }},
		{"etcdctl lock crane true", etcdctl(t, "lock", "crane", "true")},
		{"etcdctl version", etcdctl(t, "version")},
	}
	run(t, commands[0].argv(0)) // which is the first one: the broker's register is new
	const rounds = 21
	took, inside := map[string][]time.Duration{}, map[string][]time.Duration{}
	for i := range rounds {
		for _, c := range commands { // in turn, so that all meet the same computer
			argv := c.argv(i)
			if argv == nil {
				continue
			}
			whole, said := run(t, argv)
			took[c.name] = append(took[c.name], whole)
			if m := theLock.FindSubmatch(said); m != nil {
				d, err := time.ParseDuration(string(m[1]) + "ms")
				if err != nil {
					t.Error(err)
				}
				inside[c.name] = append(inside[c.name], d)
			}
		}
	}
	for _, c := range commands {
		switch all, lock := took[c.name], inside[c.name]; {
		case len(all) == 0:
			t.Logf("%s: not installed", c.name)
		case len(lock) > 0:
			t.Logf("%s: median %.1f ms, of which the lock itself %.1f ms", c.name, milliseconds(median(all)), milliseconds(median(lock)))
		default:
			t.Logf("%s: median %.1f ms", c.name, milliseconds(median(all)))
		}
	}
	if n := len(inside[commands[0].name]); n != rounds {
		t.Errorf("%d of %d commands said how long the lock took", n, rounds)
	}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// run returns how long a command took, and what it said on its standard error.
func run(t *testing.T, argv []string) (time.Duration, []byte) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %v: %s", argv, err, &said)
	}
	return time.Since(began), said.Bytes()
}

// etcdctl returns its command lines for an etcd that runs until the end of the test, none if
// it is not installed.
func etcdctl(t *testing.T, args ...string) func(int) []string {
	t.Helper()
	ctl, err := exec.LookPath("etcdctl")
	server, noServer := exec.LookPath("etcd")
	if err != nil || noServer != nil {
		return func(int) []string { return nil }
	}
	client, peer := "http://"+address.Free(t), "http://"+address.Free(t)
	start(t, "etcd", t.TempDir(), nil, server, "--data-dir", "data", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	env := []string{"ETCDCTL_API=3"}
	poll.Within(t, patience, "etcd serves", func() bool {
		cmd := exec.Command(ctl, "--endpoints", client, "get", "x")
		cmd.Env = append(os.Environ(), env...)
		return cmd.Run() == nil
	})
	return func(int) []string { return append([]string{"env", env[0], ctl, "--endpoints", client}, args...) }
}
