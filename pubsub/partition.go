package pubsub

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// defaultPartition is where writers and readers are that name none.
const defaultPartition = "default"

// maxPartitions bounds the partitions of one writer or reader.
const maxPartitions = 16

// partitions are the names and patterns of a writer or reader; none stands for
// the default partition.
type partitions []string

// validate refuses what is no level of a topic and no pattern.
func (ps partitions) validate() error {
	if len(ps) > maxPartitions {
		return fmt.Errorf("%w: %d partitions, the most is %d", ErrInvalid, len(ps), maxPartitions)
	}
	for i, p := range ps {
		if _, err := EncodeLevel(p); err != nil {
			return fmt.Errorf("partition %d: %w", i, err)
		}
		if _, err := path.Match(globOf(p), ""); err != nil {
			return fmt.Errorf("%w: the partition %q is a broken pattern: close the bracket, or write \\[ for the character", ErrInvalid, p)
		}
		if slices.Contains(ps[:i], p) {
			return fmt.Errorf("%w: the partition %q is named twice", ErrInvalid, p)
		}
	}
	return nil
}

// names are the partitions that are no patterns.
func (ps partitions) names() (names []string) {
	if len(ps) == 0 {
		return []string{defaultPartition}
	}
	for _, p := range ps {
		if !isPattern(p) {
			names = append(names, p)
		}
	}
	return names
}

// meets reports whether two lists have a partition in common: the same name, or
// a name of one that a pattern of the other matches. Two patterns never meet.
func (ps partitions) meets(others partitions) bool {
	return ps.hasAny(others.names()) || others.hasAny(ps.names())
}

func (ps partitions) hasAny(names []string) bool {
	return slices.ContainsFunc(names, ps.has)
}

// has reports whether a name is one of ps or matches a pattern of it.
func (ps partitions) has(name string) bool {
	if len(ps) == 0 {
		return name == defaultPartition
	}
	return slices.ContainsFunc(ps, func(p string) bool {
		if !isPattern(p) {
			return p == name
		}
		ok, err := path.Match(globOf(p), noSlash.Replace(name))
		return ok && err == nil // a stranger's pattern may be broken
	})
}

func isPattern(p string) bool { return strings.ContainsAny(p, "*?[") }

// noSlash: to DDS, whose patterns are those of POSIX, a slash is a character
// like any other. To path.Match it is not, and no name contains a zero byte.
var noSlash = strings.NewReplacer("/", "\x00")

// globOf is a POSIX pattern for path.Match.
func globOf(p string) string {
	return strings.ReplaceAll(noSlash.Replace(p), "[!", "[^")
}

// filters are the levels that a reader subscribes to: its partitions, or all if
// it has a pattern, because the broker knows no other one. What comes from
// partitions it does not match is dropped here.
func (ps partitions) filters() (levels []string) {
	if slices.ContainsFunc(ps, isPattern) {
		return []string{"+"}
	}
	return encodedLevels(ps.names())
}

func encodedLevels(names []string) (levels []string) {
	for _, n := range names {
		if l, err := EncodeLevel(n); err == nil { // names of strangers may be none
			levels = append(levels, l)
		}
	}
	return levels
}

// toPartitions publishes a sample in each partition of the writer. It fails only
// if nobody gets it: what is missing in one of them is repaired, or lost as best
// effort may be.
func (s *sender) toPartitions(put func(partition, key string, payload []byte) error) func(key string, payload []byte) error {
	return func(key string, payload []byte) (err error) {
		sent := false
		for _, p := range s.partitions {
			if e := put(p, key, payload); e == nil {
				sent = true
			} else if err == nil {
				err = e
			}
		}
		if sent {
			return nil
		}
		return err
	}
}

// repartition follows the readers.
func (s *sender) repartition() {
	if slices.ContainsFunc(s.qos.Partition, isPattern) {
		s.partitions = partitions(s.qos.Partition).published(s.readers)
	}
}

// published are the levels a writer publishes to: the partitions that it names,
// and, for readers which only its patterns reach, one of those that they name.
func (ps partitions) published(readers map[GUID]*remoteReader) []string {
	names := ps.names()
	for _, r := range readers {
		if !r.partitions.hasAny(names) {
			if i := slices.IndexFunc(r.partitions.names(), ps.has); i >= 0 {
				names = append(names, r.partitions.names()[i])
			}
		}
	}
	return encodedLevels(names)
}
