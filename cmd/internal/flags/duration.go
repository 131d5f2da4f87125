// Package flags has the types of flags that the commands share.
package flags

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// amount matches what would be a time if it were not so great.
var amount = regexp.MustCompile(`^[+-]?(([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+|[0-9]+(\.[0-9]*)?(e[+]?[0-9]+)?)$`)

// DurationVar registers a flag for a time as ParseDuration reads it. shorthand may be "".
func DurationVar(fs *pflag.FlagSet, p *time.Duration, name, shorthand string, value time.Duration, usage string) {
	*p = value
	fs.VarP((*duration)(p), name, shorthand, usage)
}

// ParseDuration reads a number with a unit, such as 20ms or 1m30s, or a bare number of
// seconds, such as 5 or 0.5. It may be negative.
func ParseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	const most = math.MaxInt64 / float64(time.Second) // NaN is not below it
	if x, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(x) < most {
		return time.Duration(math.Round(x * float64(time.Second))), nil
	}
	if amount.MatchString(text) {
		return 0, fmt.Errorf("%q is too long: a time has at most %.0f years", text, time.Duration(math.MaxInt64).Hours()/24/365)
	}
	return 0, fmt.Errorf("%q is no time: write seconds, or a number with a unit such as 20ms, 1.5s or 2m", text)
}

// duration is the value of such a flag.
type duration time.Duration

func (d *duration) Set(text string) error {
	v, err := ParseDuration(text)
	if err == nil {
		*d = duration(v)
	}
	return err
}

// String is what the help shows as the default; it shows none for "0".
func (d *duration) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

// Type is what the help calls it.
func (d *duration) Type() string { return "duration" }
