package reliable

import (
	"strconv"
	"strings"
)

// A reader that ends a match and begins another must not take what a writer says of the
// former for a word on the present one. It gives each match a name, and its writer uses
// that once it has been told. Until then it says of which announcement it speaks.

// byChange begins what a writer calls a match whose name it does not know.
const byChange = "~"

// called is what to call a match with a reader.
func (r *remoteReader) called() string {
	if r.match == "" && r.change > 0 {
		return byChange + strconv.FormatUint(r.change, 10)
	}
	return r.match
}

// concerned reports whether a writer speaks of the present match.
func (w *remoteWriter) concerned(called string) bool {
	if called == w.match {
		return true
	}
	number, isChange := strings.CutPrefix(called, byChange)
	if !isChange {
		return called == "" && w.since == 0
	}
	change, err := strconv.ParseUint(number, 10, 64)
	return err == nil && change >= w.since
}
