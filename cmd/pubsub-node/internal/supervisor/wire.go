//go:build unix

package supervisor

import (
	"io"
	"os"
	"time"
)

// The holder sends an order, as its length and its fields, and then numbers of signals, a
// byte each. The supervisor sends reports. The other side is this program, so that nothing is
// checked but that it is still there.

// order is a command with the descriptor of the terminal whose foreground it gets, -1 for none.
type order struct {
	Command
	foreground int
}

func (o *order) encode() []byte {
	var w writer
	w.number(o.foreground)
	w.number(int(o.KillAfter))
	hangUp := 0
	if o.HangUp {
		hangUp = 1
	}
	w.number(hangUp)
	w.text(o.Path)
	w.texts(o.Argv)
	w.texts(o.Env)
	var length writer
	length.number(len(w))
	return append(length, w...)
}

func readOrder(from io.Reader) (*order, error) {
	length := make(reader, numberBytes)
	if _, err := io.ReadFull(from, length); err != nil {
		return nil, err
	}
	r := make(reader, length.number())
	if _, err := io.ReadFull(from, r); err != nil {
		return nil, err
	}
	o := &order{foreground: r.number()}
	o.KillAfter = time.Duration(r.number())
	o.HangUp = r.number() == 1
	o.Path = r.text()
	o.Argv = r.texts()
	o.Env = r.texts()
	return o, nil
}

// What a report says.
const (
	started byte = 'p' // the value is the process id of the command and of its group
	refused byte = 'e' // it could not be started: the value is an errno
	stopped byte = 's' // by a signal such as that of Ctrl-Z
	exited  byte = 'x' // the value is its exit code, 128+signal when a signal ended it
	killed  byte = 'k' // not all ended on TERM, and what was left has got KILL
)

// report is what the supervisor tells.
type report struct {
	kind  byte
	value int
}

func (r report) send(to *os.File) {
	w := writer{r.kind}
	w.number(r.value)
	_, _ = to.Write(w) // the holder may have gone
}

func readReport(from io.Reader) (report, error) {
	r := make(reader, 1+numberBytes)
	if _, err := io.ReadFull(from, r); err != nil {
		return report{}, err
	}
	kind := r[0]
	r = r[1:]
	return report{kind, r.number()}, nil
}

const numberBytes = 8

// writer is what was written. encoding/binary is not for this package.
type writer []byte

func (w *writer) number(n int) {
	for shift := range numberBytes {
		*w = append(*w, byte(int64(n)>>(8*shift)))
	}
}

func (w *writer) text(s string) {
	w.number(len(s))
	*w = append(*w, s...)
}

func (w *writer) texts(all []string) {
	w.number(len(all))
	for _, s := range all {
		w.text(s)
	}
}

// reader is what is left to read.
type reader []byte

func (r *reader) number() int {
	var n int64
	for shift, b := range (*r)[:numberBytes] {
		n |= int64(b) << (8 * shift)
	}
	*r = (*r)[numberBytes:]
	return int(n)
}

func (r *reader) text() string {
	n := r.number()
	s := string((*r)[:n])
	*r = (*r)[n:]
	return s
}

func (r *reader) texts() []string {
	all := make([]string, r.number())
	for i := range all {
		all[i] = r.text()
	}
	return all
}

// decimal and parseDecimal are what is needed of strconv, which is not for this package.
func decimal(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return decimal(n/10) + decimal(n%10)
}

func parseDecimal[T string | []byte](s T) (n int, ok bool) {
	const most = int(^uint(0) >> 1)
	for i := range len(s) {
		digit := int(s[i]) - '0'
		if digit < 0 || digit > 9 || n > (most-digit)/10 {
			return 0, false
		}
		n = 10*n + digit
	}
	return n, len(s) > 0
}
