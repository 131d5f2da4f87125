//go:build linux

package faults

import (
	"fmt"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"
)

// parse reads a history as a worker writes it.
func parse(t *testing.T, text string) (events []event) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e event
		if _, err := fmt.Sscan(line, &e.at, &e.what, &e.resource, &e.fence); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// TestCheckOfForgedHistories: the check is red for what must not happen, and
// green for what looks like it.
func TestCheckOfForgedHistories(t *testing.T) {
	const (
		first        = "10 call crane 0\n20 got crane 7\n30 valid crane 7\n40 valid crane 7\n50 end crane 7\n"
		firstKilled  = "10 call crane 0\n20 got crane 7\n30 valid crane 7\n"
		firstPaused  = "10 call crane 0\n20 got crane 7\n30 valid crane 7\n90 lost crane 7\n"
		pausedInLock = "10 call crane 0\n90 got crane 7\n91 lost crane 7\n"
	)
	for name, c := range map[string]struct {
		a, b string
		want porcupine.CheckResult
	}{
		"one after the other":                {first, "5 call crane 0\n60 got crane 8\n70 end crane 8\n", porcupine.Ok},
		"entry while a hold is valid":        {first, "15 call crane 0\n35 got crane 8\n36 valid crane 8\n70 end crane 8\n", porcupine.Illegal},
		"entry while a hold may be over":     {first, "15 call crane 0\n45 got crane 8\n46 valid crane 8\n70 end crane 8\n", porcupine.Ok},
		"fence goes back":                    {first, "55 call crane 0\n60 got crane 6\n70 end crane 6\n", porcupine.Illegal},
		"fence comes again":                  {first, "55 call crane 0\n60 got crane 7\n70 end crane 7\n", porcupine.Illegal},
		"lower fence on another resource":    {first, "15 call press 0\n35 got press 6\n36 valid press 6\n70 end press 6\n", porcupine.Ok},
		"entry after a kill":                 {firstKilled, "15 call crane 0\n35 got crane 8\n36 valid crane 8\n70 end crane 8\n", porcupine.Ok},
		"entry before a kill":                {firstKilled, "15 call crane 0\n25 got crane 8\n36 valid crane 8\n70 end crane 8\n", porcupine.Illegal},
		"entry during a pause":               {firstPaused, "15 call crane 0\n35 got crane 8\n36 valid crane 8\n70 end crane 8\n", porcupine.Ok},
		"a pause that loses nothing":         {firstPaused + "95 call crane 0\n96 got crane 8\n97 valid crane 8\n", "", porcupine.Ok},
		"a paused one does not see it":       {strings.Replace(firstPaused, "lost", "valid", 1) + "95 end crane 7", "15 call crane 0\n35 got crane 8\n36 valid crane 8\n70 end crane 8\n", porcupine.Illegal},
		"lapsed before Lock returned":        {pausedInLock, "15 call crane 0\n35 got crane 8\n36 valid crane 8\n70 end crane 8\n", porcupine.Ok},
		"the lower fence returned late":      {pausedInLock, "15 call crane 0\n35 got crane 6\n36 valid crane 6\n70 end crane 6\n", porcupine.Ok},
		"call that never returned":           {"10 call crane 0\n", first, porcupine.Ok},
		"lost while the other is not yet in": {firstPaused, "92 call crane 0\n94 got crane 8\n95 end crane 8\n", porcupine.Ok},
	} {
		if got := check(t, parse(t, c.a), parse(t, c.b)); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
