// Package partition decides which partitions of the domain writers and readers have in
// common.
package partition

import (
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"padme/pubsub/internal/failure"
	"padme/pubsub/internal/level"
)

// Default is where writers and readers are that name none.
const Default = "default"

// most is how many one writer or reader may name.
const most = 16

// A List has the names and patterns of a writer or reader; none stands for Default.
type List []string

// Validate refuses what is no level of a topic and no pattern.
func (l List) Validate() error {
	if len(l) > most {
		return fmt.Errorf("%w: %d partitions, the most is %d", failure.ErrInvalid, len(l), most)
	}
	for i, p := range l {
		if _, err := level.Encode(p); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
		if _, err := path.Match(globOf(p), ""); err != nil && IsPattern(p) {
			return fmt.Errorf("%w: the partition %q is a broken pattern: close the bracket, and do not end it with a backslash; a name cannot contain *, ? and [", failure.ErrInvalid, p)
		}
		if slices.Contains(l[:i], p) {
			return fmt.Errorf("%w: the partition %q is named twice", failure.ErrInvalid, p)
		}
	}
	return nil
}

// names are the partitions that are no patterns.
func (l List) names() (names []string) {
	if len(l) == 0 {
		return []string{Default}
	}
	for _, p := range l {
		if !IsPattern(p) {
			names = append(names, p)
		}
	}
	return names
}

// Meets reports whether two lists have a partition in common: the same name, or
// a name of one that a pattern of the other matches. Two patterns never meet.
func (l List) Meets(others List) bool {
	return l.hasAny(others.names()) || others.hasAny(l.names())
}

func (l List) hasAny(names []string) bool {
	return slices.ContainsFunc(names, l.Has)
}

// Has reports whether a name is one of l or matches a pattern of it.
func (l List) Has(name string) bool {
	if len(l) == 0 {
		return name == Default
	}
	return slices.ContainsFunc(l, func(p string) bool {
		if !IsPattern(p) {
			return p == name
		}
		ok, err := path.Match(globOf(p), noSlash.Replace(name))
		return ok && err == nil // a stranger's pattern may be broken
	})
}

// IsPattern reports whether p stands for all that it matches.
func IsPattern(p string) bool { return strings.ContainsAny(p, "*?[") }

// noSlash: to DDS, whose patterns are those of POSIX, a slash is a character
// like any other. To path.Match it is not, and no name contains a zero byte.
var noSlash = strings.NewReplacer("/", "\x00")

// globOf is a POSIX pattern for path.Match.
func globOf(p string) string {
	return strings.ReplaceAll(noSlash.Replace(p), "[!", "[^")
}

// Filters are the levels that a reader subscribes to: its partitions, or all if
// it has a pattern, because the broker knows no other one. What comes from
// partitions it does not match is dropped here.
func (l List) Filters() (levels []string) {
	if slices.ContainsFunc(l, IsPattern) {
		return []string{"+"}
	}
	return encoded(l.names())
}

func encoded(names []string) (levels []string) {
	for _, n := range names {
		if e, err := level.Encode(n); err == nil { // names of strangers may be none
			levels = append(levels, e)
		}
	}
	return levels
}

// Published are the levels a writer publishes to: the partitions that it names,
// and, for readers which only its patterns reach, one of those that they name.
func (l List) Published(readers iter.Seq[List]) []string {
	names := l.names()
	for r := range readers {
		if !r.hasAny(names) {
			if i := slices.IndexFunc(r.names(), l.Has); i >= 0 {
				names = append(names, r.names()[i])
			}
		}
	}
	return encoded(names)
}
