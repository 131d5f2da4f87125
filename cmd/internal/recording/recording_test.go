package recording

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func written(t *testing.T, messages int) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file, "yard")
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		payload := []byte{0xff, 0} // no UTF-8
		if i%2 == 0 {
			payload = fmt.Appendf(nil, "%x", rand.Uint64())
		}
		if err := w.Write(w.started.Add(time.Duration(i)*time.Millisecond), []string{"lock", "crane", "events"}, payload, i == 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Missed(w.started.Add(time.Duration(messages)*time.Millisecond), 7); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestSummary(t *testing.T) {
	s, err := Summarize(bytes.NewReader(written(t, 1000)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if s.Messages != 1000 || s.Missed != 7 || s.Length != time.Second || s.Domain != "yard" || s.Cut || time.Since(s.Started) > time.Minute {
		t.Errorf("%+v", s)
	}
}

// A process that was killed leaves a file that ends anywhere.
func TestRecordingThatBreaksOffIsGoodUpToThere(t *testing.T) {
	whole := written(t, 20000)
	s, err := Summarize(bytes.NewReader(whole[:len(whole)/2]), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	if !s.Cut || s.Messages < 1000 || s.Messages >= 20000 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsWrittenSurvivesAKill(t *testing.T) {
	var file bytes.Buffer
	w, err := NewWriter(&file, "yard")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(time.Now(), []string{"presence", "a"}, []byte("{}"), true), w.Flush()); err != nil {
		t.Fatal(err)
	}
	if s, err := Summarize(&file, 1<<20); err != nil || s.Messages != 1 || !s.Cut {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestWhatIsNoRecordingIsRefused(t *testing.T) {
	zipped := func(lines string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		if _, err := w.Write([]byte(lines)); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const header = `{"padme":"recording","version":1}` + "\n"
	for file, reason := range map[string]string{
		"":                             "not compressed",
		"a text":                       "not compressed",
		zipped(""):                     "empty",
		zipped("a text\n"):             "first line",
		zipped(`{"padme":"x"}` + "\n"): "first line",
		zipped(header + "[]\n"):        "line 2",
		zipped(`{"padme":"recording","version":9}` + "\n"):               "version 9",
		zipped(header + `{"text":"` + strings.Repeat("a", 2<<20) + `"}`): "more than 1 MB",
		zipped(header)[:12]: "empty",
	} {
		if _, err := Summarize(strings.NewReader(file), 1<<20); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.20q: %v, want %q", file, err, reason)
		}
	}
}
