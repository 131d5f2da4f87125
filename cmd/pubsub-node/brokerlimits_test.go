package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A limit that is out of its range, or leaves the broker's own locks nothing, is named by its flag, with
// what to do.
func TestLimitsThatCannotBe(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]struct {
		says string
		code int
	}{
		"--max-filters 70000":                         {"--max-filters 70000: choose 1 to 65536, or leave it out", exitUsage},
		"--max-unauthenticated-per-address -1":        {"--max-unauthenticated-per-address -1: choose at least 0, or leave it out", exitUsage},
		"--session-expiry 100000h":                    {"--session-expiry 100000h0m0s: choose at most 87600h0m0s, or leave it out", exitUsage},
		"--max-queue 70000":                           {"--max-queue 70000: choose 1 to 65535, or leave it out", exitUsage},
		"--max-queue 1":                               {"--max-queue 1: choose at least 8", exitUsage},
		"--max-topics 1":                              {"--max-topics 1: give at least 2", exitUsage},
		"--max-metrics-locks 1 --metrics 127.0.0.1:0": {"--max-metrics-locks 1: choose at least 2", exitUsage},
		"--max-clients 1":                             {"the broker's own locks are beyond --max-clients 1: choose more", exitFailure},
		"--max-packet 128":                            {"the broker's own locks are beyond --max-packet 128: choose more", exitFailure},
		"--max-connect-size 128":                      {"the broker's own locks are beyond --max-connect-size 128: choose more", exitFailure},
		"--max-user-clients 1 --users " + users:       {"the broker's own locks are beyond --max-user-clients 1: choose more", exitFailure},
		"--max-user-subscriptions 3 --users " + users: {"the broker's own locks are beyond --max-user-subscriptions 3: choose more", exitFailure},
		"--max-user-wildcards 1 --users " + users:     {"the broker's own locks are beyond --max-user-wildcards 1: choose more", exitFailure},
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			root := newRoot()
			root.SetArgs(append([]string{"broker", "--listen", "127.0.0.1:0", "--memory", "--timeout", "3s"}, strings.Fields(flags)...))
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := root.ExecuteContext(ctx)
			if err == nil || !strings.Contains(message(err), want.says) || exitCode(err) != want.code {
				t.Errorf("exit code %d: %v", exitCode(err), err)
			}
		})
	}
}
