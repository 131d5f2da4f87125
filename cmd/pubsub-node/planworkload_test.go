package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/cmd/internal/recording"
	"padme/qosmutex"
)

// recordedShift is a recording of participants that ask for a lock each in its way.
func recordedShift(t *testing.T, names ...string) []byte {
	t.Helper()
	var events []qosmutex.Event
	began := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	for i, name := range names {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		for at, n := began, 1; n <= 100; n++ {
			at = at.Add(time.Duration(r.ExpFloat64() * float64(time.Minute)))
			e := qosmutex.Event{Event: qosmutex.EventRequested, Topic: "crane", Resource: "default", Participant: name, Request: fmt.Sprint(name, "/", n), Priority: int64(i), At: at}
			events = append(events, e)
			e.Event, e.At, e.Waited = qosmutex.EventGranted, at.Add(40*time.Millisecond), 0.04
			events = append(events, e)
			held := time.Duration(float64(i+1) * float64(time.Second))
			at = e.At.Add(held)
			e.Event, e.At, e.Held = qosmutex.EventReleased, at, held.Seconds()
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(a, b qosmutex.Event) int { return a.At.Compare(b.At) })
	var file bytes.Buffer
	zip := gzip.NewWriter(&file)
	lines := json.NewEncoder(zip)
	if err := lines.Encode(recording.Header{Padme: "recording", Version: 1, Started: began}); err != nil {
		t.Fatal(err)
	}
	for i := range events {
		text, err := json.Marshal(events[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := lines.Encode(recording.Message{MS: events[i].At.Sub(began).Milliseconds(), Levels: []string{"lock", "crane", "events"}, Text: string(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// What is printed is a scenario, whatever the participants are called and wherever the file
// ends.
func TestWorkloadIsAScenario(t *testing.T) {
	t.Parallel()
	names := []string{"ship", "a\nthink: 0s", "{id: b}", "null", "7", "- *x", "\u2028#"}
	whole := recordedShift(t, names...)
	for _, size := range []int{len(whole), len(whole) - 9, len(whole) / 2, len(whole) / 10} {
		name := filepath.Join(t.TempDir(), "shift.padme")
		if err := os.WriteFile(name, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := writeWorkload(&out, name, ""); err != nil {
			t.Fatal(err)
		}
		s := newSimSpec()
		if err := s.read(&out, ".", s.options); err != nil {
			t.Fatal(err)
		}
		if len(s.participants) != len(names) || s.nodes != len(names) || s.latency.text != "20ms" || !strings.HasPrefix(s.load.think.text, "exponential:") {
			t.Errorf("%d bytes: %d participants, latency %s, think %s", size, len(s.participants), s.latency.text, s.load.think.text)
		}
		for i, p := range s.participants {
			if cs := fmt.Sprint(i+1, "s"); p.id != names[i] || p.load.cs.text != cs && (p.load.cs.text != "" || s.load.cs.text != cs) {
				t.Errorf("%d bytes: %q holds %q, or %s", size, p.id, p.load.cs.text, s.load.cs.text)
			}
		}
	}
}
