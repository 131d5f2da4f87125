// Package capture keeps what loggers and processes write, for a test that reads it meanwhile.
package capture

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Text is an io.Writer that keeps what is written to it. Its zero value keeps all, and
// several goroutines may use it.
type Text struct {
	Last int // if not 0, only so many bytes are kept, the last ones

	mu sync.Mutex
	b  []byte
}

func (t *Text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if extra := len(t.b) - t.Last; t.Last > 0 && extra > 0 {
		t.b = append(t.b[:0], t.b[extra:]...)
	}
	return len(b), nil
}

// Logger returns a logger of lines of text.
func (t *Text) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(t, nil)) }

// String is what was written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// Take returns what was written since it or Reset was called last.
func (t *Text) Take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.b = nil }()
	return string(t.b)
}

// Reset forgets what was written so far.
func (t *Text) Reset() { t.Take() }

// Has reports whether a text was written.
func (t *Text) Has(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Contains(t.b, []byte(text))
}

// Lines counts the lines that contain all the texts.
func (t *Text) Lines(texts ...string) (n int) {
next:
	for line := range strings.Lines(t.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		n++
	}
	return n
}
