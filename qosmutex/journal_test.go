package qosmutex

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) warnings(word string) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, word) {
			n++
		}
	}
	return n
}

func (j *journal) says(words string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), words)
}

func (j *journal) option() Option {
	return WithLogger(slog.New(slog.NewTextHandler(j, nil)))
}
