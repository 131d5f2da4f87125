package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"padme/qosmutex/protocol"
)

// ErrTrace is wrapped by every error of ReadTrace about what is in the file. The
// rest of its text names the line, the field and what is wrong.
var ErrTrace = errors.New("sim: invalid trace")

var traceFields = [...]string{"at", "node", "resource", "hold", "priority", "within"}

// ReadTrace reads a recorded load: lines of comma-separated values (RFC 4180),
//
//	at,node,resource,hold[,priority[,within]]
//
// where at counts from the start of the workload. Times are Go durations ("1.5s",
// "20ms") or plain seconds. Without priority a request has the participant's,
// without within no deadline; both may be empty. Empty lines, lines that start
// with #, and a first line of field names are skipped. Arrivals need not be in
// order of time.
func ReadTrace(r io.Reader) ([]Arrival, error) {
	lines := csv.NewReader(r)
	lines.Comment = '#'
	lines.FieldsPerRecord = -1
	lines.TrimLeadingSpace = true
	lines.ReuseRecord = true
	var all []Arrival
	for first := true; ; first = false {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var wrong *csv.ParseError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("%w: line %d: %w", ErrTrace, wrong.Line, wrong.Err)
		}
		if err != nil {
			return nil, fmt.Errorf("sim: reading a trace: %w", err)
		}
		if first && strings.TrimSpace(fields[0]) == traceFields[0] {
			continue
		}
		a, err := parseArrival(fields)
		if err != nil {
			line, _ := lines.FieldPos(0)
			return nil, fmt.Errorf("%w: line %d: %w", ErrTrace, line, err)
		}
		all = append(all, a)
	}
}

func parseArrival(fields []string) (a Arrival, err error) {
	const least = 4 // fields up to hold
	if len(fields) < least || len(fields) > len(traceFields) {
		return a, fmt.Errorf("has %d fields, want %s", len(fields), "at,node,resource,hold[,priority[,within]]")
	}
	var f [len(traceFields)]string
	for i := range fields {
		f[i] = strings.TrimSpace(fields[i])
		if f[i] == "" && i < least {
			return a, fmt.Errorf("%s is empty", traceFields[i])
		}
		if strings.ContainsFunc(f[i], unicode.IsControl) {
			return a, fmt.Errorf("%s: %q has a control character", traceFields[i], f[i])
		}
	}
	a.Node, a.Resource = f[1], f[2]
	if a.At, err = parseSpan(f[0]); err != nil {
		return a, fmt.Errorf("at: %w", err)
	}
	if a.Hold, err = parseSpan(f[3]); err != nil {
		return a, fmt.Errorf("hold: %w", err)
	}
	if f[4] != "" {
		a.Fixed = true
		if a.Priority, err = strconv.ParseInt(f[4], 10, 64); err != nil {
			return a, fmt.Errorf("priority: %q is not a whole number", f[4])
		}
	}
	if f[5] != "" {
		if a.Within, err = parseSpan(f[5]); err != nil {
			return a, fmt.Errorf("within: %w", err)
		}
		if a.Within == 0 {
			return a, errors.New("within: must be positive; leave it out for a request without a deadline")
		}
	}
	return a, nil
}

// parseSpan reads a Go duration or a number of seconds.
func parseSpan(text string) (protocol.Duration, error) {
	var d protocol.Duration
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		if !(x >= 0 && x*float64(protocol.Second) <= float64(longest)) {
			return 0, fmt.Errorf("%q is not between 0 and %s", text, seconds(longest))
		}
		d = span(x * float64(protocol.Second))
	} else {
		parsed, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is neither a duration, such as 1.5s, nor a number of seconds", text)
		}
		d = protocol.Duration(parsed)
	}
	if d < 0 || d > longest {
		return 0, fmt.Errorf("%q is not between 0 and %s", text, seconds(longest))
	}
	return d, nil
}
