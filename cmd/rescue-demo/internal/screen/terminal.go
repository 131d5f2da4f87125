package screen

import (
	"fmt"
	"io"
	"strings"
)

// Terminal redraws lines in place. It is not safe for concurrent use.
type Terminal struct {
	w     io.Writer
	lines int // drawn last
}

// NewTerminal returns a terminal on w, with the cursor hidden until Close.
func NewTerminal(w io.Writer) *Terminal {
	_, _ = io.WriteString(w, "\x1b[?25l")
	return &Terminal{w: w}
}

// Show replaces what was shown before. It writes once, and over what stands
// there instead of clearing it first, so that nothing flickers.
func (t *Terminal) Show(lines []string) {
	var b strings.Builder
	if t.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", t.lines)
	}
	for _, line := range lines {
		b.WriteString("\r" + line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	t.lines = len(lines)
	_, _ = io.WriteString(t.w, b.String())
}

// Close leaves the last picture standing and shows the cursor again.
func (t *Terminal) Close() { _, _ = io.WriteString(t.w, "\x1b[?25h") }
