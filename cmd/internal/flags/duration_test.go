package flags

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestABareNumberIsSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "0": 0, "-1": -time.Second,
		"20ms": 20 * time.Millisecond, "1m30s": 90 * time.Second, "1e3": 1000 * time.Second,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "5x", "NaN", "Inf", "1e10", "1 s"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, text := range []string{"99999999999", "-99999999999", "1e10", "99999999999s", "9999999h30m"} {
		if got, err := ParseDuration(text); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%q is %v: %v", text, got, err)
		}
	}
}

func TestHelpShowsDefaultsAsOfOtherTimes(t *testing.T) {
	var none, some time.Duration
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	DurationVar(fs, &none, "none", "", 0, "how long")
	DurationVar(fs, &some, "some", "s", 5*time.Second, "how long")
	help := fs.FlagUsages()
	if strings.Count(help, "default") != 1 || !strings.Contains(help, "-s, --some duration") || !strings.Contains(help, "(default 5s)") {
		t.Error(help)
	}
	if err := fs.Parse([]string{"-s", "7"}); err != nil || some != 7*time.Second {
		t.Error(some, err)
	}
}
