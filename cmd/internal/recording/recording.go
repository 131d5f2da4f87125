// Package recording is the file of `pubsub-node record`: a gzip stream of JSON lines. The
// first line is a Header, each further one a Message, in the order in which they came. A
// stream that breaks off, as that of a process that was killed does, is good up to there.
package recording

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

const (
	kind    = "recording"
	version = 1
)

// ErrInvalid is wrapped by the errors of a file that is no recording, or none that this
// version reads.
var ErrInvalid = errors.New("no recording")

// Header begins a recording.
type Header struct {
	Padme   string    `json:"padme"` // "recording"
	Version int       `json:"version"`
	Domain  string    `json:"domain"`
	Started time.Time `json:"started"`
}

// Message is something that came below the root of the domain. Exactly one of Text and Data
// has the payload: Data, in base64, if it is not UTF-8. A line with Missed instead says that
// so many messages before it came too fast.
type Message struct {
	MS       int64    `json:"ms"`               // since Started
	Levels   []string `json:"levels,omitempty"` // of the topic, below the root, decoded
	Text     string   `json:"text,omitempty"`
	Data     []byte   `json:"data,omitempty"`
	Retained bool     `json:"retained,omitempty"` // it was published before it was subscribed to
	Missed   int      `json:"missed,omitempty"`
}

// Writer writes a recording. It is not safe for concurrent use.
type Writer struct {
	zip     *gzip.Writer
	lines   *json.Encoder
	started time.Time
}

// NewWriter begins a recording of a domain, now. The caller closes the Writer, and w after
// it.
func NewWriter(w io.Writer, domain string) (*Writer, error) {
	zip := gzip.NewWriter(w)
	r := &Writer{zip: zip, lines: json.NewEncoder(zip), started: time.Now()}
	if err := r.lines.Encode(Header{kind, version, domain, r.started.UTC()}); err != nil {
		return nil, err
	}
	return r, r.Flush()
}

// Write appends a message that came at a time.
func (w *Writer) Write(at time.Time, levels []string, payload []byte, retained bool) error {
	m := Message{MS: w.since(at), Levels: levels, Retained: retained}
	if utf8.Valid(payload) {
		m.Text = string(payload)
	} else {
		m.Data = payload
	}
	return w.lines.Encode(m)
}

// Missed notes that n messages before a time were not recorded.
func (w *Writer) Missed(at time.Time, n int) error {
	return w.lines.Encode(Message{MS: w.since(at), Missed: n})
}

func (w *Writer) since(at time.Time) int64 { return max(0, at.Sub(w.started).Milliseconds()) }

// Flush has everything written so far reach the file: it survives the end of this process.
func (w *Writer) Flush() error { return w.zip.Flush() }

// Close ends the recording.
func (w *Writer) Close() error { return w.zip.Close() }

// Summary is what a recording consists of.
type Summary struct {
	Header
	Messages int
	Size     int64 // bytes of its lines
	Length   time.Duration
	Missed   int
	Cut      bool // it breaks off: its process was killed
}

// maxLine bounds a line: brokers forward no such message.
const maxLine = 64 << 20

// Summarize reads a recording to its end, at most limit bytes of lines. An error wraps
// ErrInvalid if it is none, or if it is longer.
func Summarize(r io.Reader, limit int64) (Summary, error) {
	return read(r, limit, func(*Message) error { return nil })
}

// Read is Summarize of a recording of any length that gives each line to visit, whose error
// ends it.
func Read(r io.Reader, visit func(*Message) error) (Summary, error) {
	const unlimited = 1 << 62
	return read(r, unlimited, visit)
}

func read(r io.Reader, limit int64, visit func(*Message) error) (s Summary, err error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return s, fmt.Errorf("%w: it is not compressed by gzip: %w", ErrInvalid, err)
	}
	lines := bufio.NewReader(io.LimitReader(zip, limit+1))
	for n := 1; ; n++ {
		line, err := readLine(lines)
		s.Size += int64(len(line))
		switch {
		case s.Size > limit:
			return s, fmt.Errorf("%w that fits: it has more than %d MB", ErrInvalid, limit>>20)
		case err == nil:
			if err := s.add(n, line, visit); err != nil {
				return s, err
			}
			continue
		case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return s, fmt.Errorf("%w: damaged after %v: %w", ErrInvalid, s.Length, err)
		case n == 1:
			return s, fmt.Errorf("%w: it is empty", ErrInvalid)
		}
		s.Cut = len(line) > 0 || !errors.Is(err, io.EOF)
		return s, nil
	}
}

// readLine is ReadBytes that gives up on a line above maxLine.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxLine {
			return line, errors.New("a line is too long")
		}
	}
}

// add reads line number n.
func (s *Summary) add(n int, line []byte, visit func(*Message) error) error {
	if n == 1 {
		if err := json.Unmarshal(line, &s.Header); err != nil || s.Padme != kind {
			return fmt.Errorf("%w: its first line is not that of one", ErrInvalid)
		}
		if s.Version != version {
			return fmt.Errorf("%w of this version: it is of version %d, this program reads version %d", ErrInvalid, s.Version, version)
		}
		return nil
	}
	var m Message
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("%w: line %d: %w", ErrInvalid, n, err)
	}
	if m.Missed > 0 {
		s.Missed += m.Missed
	} else {
		s.Messages++
	}
	s.Length = time.Duration(m.MS) * time.Millisecond
	return visit(&m)
}
