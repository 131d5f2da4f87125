//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"padme/tests/address"
	"padme/tests/poll"
)

// What the root of a lock has published stays with the broker when it has died, and when it
// has ended: verbs that show it say that it is of before.
func TestWhatADeadRootPublishedIsOfBefore(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"in good order": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, addr := t.TempDir(), address.Free(t)
			startBrokerProcess(t, dir, addr, "--no-locks")
			s := &site{t: t, url: "mqtt://" + addr, dir: dir}
			gateway := startNode(t, dir, s.url, "serve", "--id", "s1", "--ready-file", "serves")
			poll.Until(t, "the gateway serves", func() bool { return exists(filepath.Join(dir, "serves")) })
			holder := startNode(t, dir, s.url, "lock", "crane", "-w", "20s", "--", "sh", "-c", "touch held; sleep 60")
			poll.Until(t, "the command runs", func() bool { return exists(filepath.Join(dir, "held")) })
			poll.Until(t, "the root says so", func() bool {
				_, stdout, _ := s.run("lock", "ls", "crane")
				return strings.Contains(stdout, "held")
			})
			verbs := [][]string{{"lock", "ls"}, {"lock", "show", "crane"}, {"lock", "why", "crane"}, {"lock", "queue", "crane"}}
			for _, verb := range verbs {
				if code, stdout, stderr := s.run(append(verb, "--json")...); code != 0 || strings.Contains(stdout, "root_dead") || strings.Contains(stderr, "not alive") {
					t.Errorf("%v while the root is alive: exit code %d, %s%s", verb, code, stdout, stderr)
				}
			}
			if err := gateway.Cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			gateway.exit(t)
			holder.exit(t) // its lock is lost
			for _, verb := range verbs {
				code, _, stderr := s.run(verb...)
				if code != 0 || !strings.Contains(stderr, `root s1 is not alive, so what is shown of its locks is of before: start "pubsub-node serve"`) {
					t.Errorf("%v: exit code %d, %s", verb, code, stderr)
				}
				code, stdout, _ := s.run(append(verb, "--json")...)
				if lines := strings.Count(stdout, "\n"); code != 0 || lines == 0 && verb[1] != "queue" || strings.Count(stdout, `"root_dead":true`) != lines {
					t.Errorf("%v --json: exit code %d, %s", verb, code, stdout)
				}
			}
			if code, stdout, _ := s.run("doctor"); sig == syscall.SIGKILL && (code != exitFailure || !strings.Contains(stdout, `crane: s1, which is not alive: start "pubsub-node serve"`)) {
				t.Errorf("doctor: exit code %d, %s", code, stdout)
			}
		})
	}
}
