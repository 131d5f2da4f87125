package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/cmd/internal/flags"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sim"
)

// The types below are values of flags, and of keys of a scenario file.

// spans is a distribution of times, as in "20ms" or "uniform:10ms,50ms".
type spans struct {
	text string
	sim.Distribution
	bound protocol.Duration // is exceeded once in a thousand draws at most
}

// spanShape is a distribution: what it is given, how it is made from it, and the
// bound of a spans.
type spanShape struct {
	name, wants string
	least       bool // b must not be below a
	make        func(a, b protocol.Duration) sim.Distribution
	bound       func(a, b float64) float64
}

var spanShapes = []spanShape{
	{"constant", "TIME", false, func(a, _ protocol.Duration) sim.Distribution { return sim.Constant(a) }, func(a, _ float64) float64 { return a }},
	{"uniform", "LEAST,GREATEST", true, sim.Uniform, func(_, b float64) float64 { return b }},
	{"exponential", "MEAN", false, func(a, _ protocol.Duration) sim.Distribution { return sim.Exponential(a) }, func(a, _ float64) float64 { return 7 * a }},
	{"normal", "MEAN,DEVIATION", false, sim.Normal, func(a, b float64) float64 { return a + 3.1*b }},
	{"lognormal", "MEAN,DEVIATION", false, sim.LogNormal, func(a, b float64) float64 { return a + 7*b }},
}

// spansOf is a constant.
func spansOf(d time.Duration) spans {
	return spans{d.String(), sim.Constant(protocol.Duration(d)), protocol.Duration(d)}
}

func (s *spans) Set(text string) error {
	name, rest, found := strings.Cut(text, ":")
	if !found {
		name, rest = "constant", text
	}
	i := slices.IndexFunc(spanShapes, func(shape spanShape) bool { return shape.name == name })
	if i < 0 {
		return fmt.Errorf("no distribution is named %q%s", name, didYouMean(name, shapeNames()))
	}
	shape := &spanShapes[i]
	words := strings.Split(rest, ",")
	if len(words) != 1+strings.Count(shape.wants, ",") {
		return fmt.Errorf("want %s:%s", name, shape.wants)
	}
	var at [2]protocol.Duration
	for j, word := range words {
		d, err := parseSpan(word)
		if err != nil {
			return err
		}
		at[j] = d
	}
	if shape.least && at[1] < at[0] {
		return fmt.Errorf("the greatest is below the least: want %s:%s", name, shape.wants)
	}
	if name == "lognormal" && at[0] == 0 && at[1] > 0 {
		return fmt.Errorf("a mean of 0 has no deviation: want %s:%s", name, shape.wants)
	}
	*s = spans{text, shape.make(at[0], at[1]), protocol.Duration(min(shape.bound(float64(at[0]), float64(at[1])), float64(longestSpan)))}
	return nil
}

func (s *spans) String() string { return s.text }

// Type is what the help calls it.
func (s *spans) Type() string { return "time" }

func shapeNames() []string {
	var names []string
	for i := range spanShapes {
		names = append(names, spanShapes[i].name)
	}
	return names
}

// longestSpan is 36 years, as far as the simulator counts.
const longestSpan protocol.Duration = 1 << 60

// parseSpan reads a time that is not negative.
func parseSpan(text string) (protocol.Duration, error) {
	d, err := flags.ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case d < 0:
		return 0, fmt.Errorf("%q is negative", text)
	case protocol.Duration(d) > longestSpan:
		return 0, fmt.Errorf("%q is above 36 years", text)
	}
	return protocol.Duration(d), nil
}

// duration is one time that is not negative.
type duration protocol.Duration

func (d *duration) Set(text string) error {
	v, err := parseSpan(text)
	*d = duration(v)
	return err
}

func (d *duration) String() string { return time.Duration(*d).String() }

// Type is what the help calls it.
func (d *duration) Type() string { return "time" }

// spanList is a list of positive times.
type spanList []protocol.Duration

func (l *spanList) Set(text string) error {
	var all spanList
	for word := range strings.SplitSeq(text, ",") {
		d, err := parseSpan(word)
		if err != nil {
			return err
		}
		if d == 0 {
			return fmt.Errorf("%q is not positive", word)
		}
		all = append(all, d)
	}
	*l = all
	return nil
}

func (l *spanList) String() string {
	var words []string
	for _, d := range *l {
		words = append(words, time.Duration(d).String())
	}
	return strings.Join(words, ",")
}

// Type is what the help calls it.
func (l *spanList) Type() string { return "times" }

// intList is a list of whole numbers.
type intList []int64

func (l *intList) Set(text string) error {
	var all intList
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", word)
		}
		all = append(all, n)
	}
	*l = all
	return nil
}

func (l *intList) String() string {
	var words []string
	for _, n := range *l {
		words = append(words, strconv.FormatInt(n, 10))
	}
	return strings.Join(words, ",")
}

// Type is what the help calls it.
func (l *intList) Type() string { return "numbers" }

// nameList is a list of names of resources.
type nameList []string

func (l *nameList) Set(text string) error {
	var all drawList
	if err := all.Set(text); err != nil {
		return err
	}
	for i, name := range all {
		if slices.Contains(all[:i], name) {
			return fmt.Errorf("%q is there twice", name)
		}
	}
	*l = nameList(all)
	return nil
}

func (l *nameList) String() string { return strings.Join(*l, ",") }

// Type is what the help calls it.
func (l *nameList) Type() string { return "names" }

// drawList are names of which one is drawn: one that is there twice is twice as likely.
type drawList []string

func (l *drawList) Set(text string) error {
	var all drawList
	for word := range strings.SplitSeq(text, ",") {
		name := strings.TrimSpace(word)
		if name == "" {
			return errors.New("there is an empty name")
		}
		all = append(all, name)
	}
	*l = all
	return nil
}

func (l *drawList) String() string { return strings.Join(*l, ",") }

// Type is what the help calls it.
func (l *drawList) Type() string { return "names" }

// share is a number from 0 on, below most.
type share struct {
	value, most float64
}

func (s *share) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v < s.most) {
		return fmt.Errorf("%q is not a number from 0 to below %v", text, s.most)
	}
	s.value = v
	return nil
}

func (s *share) String() string { return strconv.FormatFloat(s.value, 'g', -1, 64) }

// Type is what the help calls it.
func (s *share) Type() string { return "number" }
