package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"padme/cmd/internal/flags"
	"padme/qosmutex/protocol"
)

// lineError is an error at a line of a scenario file.
type lineError struct {
	line  int
	cause error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.cause) }

func (e *lineError) Unwrap() error { return e.cause }

func at(n *yaml.Node, format string, args ...any) error {
	return &lineError{n.Line, fmt.Errorf(format, args...)}
}

// readFile sets what a scenario file says and no flag does: flags, those set on
// the command line, win.
func (s *simSpec) readFile(name string, flags *pflag.FlagSet) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	s.file = name
	if err := s.read(f, filepath.Dir(name), flags); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (s *simSpec) read(r io.Reader, dir string, flags *pflag.FlagSet) error {
	d := yaml.NewDecoder(r)
	var document yaml.Node
	if err := d.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("is empty: a scenario has keys such as \"nodes: 7\"")
		}
		return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("holds more than one document: a scenario is one")
	}
	root := document.Content[0]
	var pairs []keyValue
	if err := mapping(root, "a scenario", append(flagNames(s.options), "participants", "faults"), func(k, v *yaml.Node) error {
		pairs = append(pairs, keyValue{k, v})
		return nil
	}); err != nil {
		return err
	}
	return s.apply(pairs, dir, flags)
}

type keyValue struct{ key, value *yaml.Node }

// flagNames are the flags of a set, in its order.
func flagNames(fs *pflag.FlagSet) []string {
	var names []string
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// rivals are pairs of which one on the command line replaces the other in a file.
var rivals = map[string]string{"every": "think", "think": "every"}

func (s *simSpec) apply(pairs []keyValue, dir string, flags *pflag.FlagSet) error {
	for _, p := range pairs {
		name := p.key.Value
		if flags.Changed(name) || rivals[name] != "" && flags.Changed(rivals[name]) {
			continue
		}
		var err error
		switch {
		case name == "participants":
			err = s.readParticipants(p.value)
		case name == "faults":
			err = s.readFaults(p.value)
		case name == "latency" && isMatrix(p.value):
			err = s.readMatrix(p.value)
		default:
			err = setOption(s.options, name, p.value)
		}
		if err != nil {
			return err
		}
		s.given[name] = true
	}
	if s.trace != "" && s.given["trace"] && !flags.Changed("trace") && !filepath.IsAbs(s.trace) {
		s.trace = filepath.Join(dir, s.trace)
	}
	if len(s.participants) > 0 && !s.given["nodes"] && !flags.Changed("nodes") {
		s.nodes = len(s.participants)
	}
	return nil
}

// setOption sets what a flag of that name would.
func setOption(fs *pflag.FlagSet, name string, v *yaml.Node) error {
	text, err := scalar(v)
	if err != nil {
		return at(v, "%s: %w", name, err)
	}
	option := fs.Lookup(name).Value
	if err := option.Set(text); err != nil {
		if wants := flags.Wants(option.Type()); wants != "" {
			err = fmt.Errorf("want %s", wants)
		}
		return at(v, "%s: %q: %w", name, text, err)
	}
	return nil
}

// scalar is a value, or a list of values joined by commas.
func scalar(v *yaml.Node) (string, error) {
	v = resolve(v)
	switch {
	case v.Kind == yaml.ScalarNode && v.Tag != "!!null":
		return v.Value, nil
	case v.Kind == yaml.SequenceNode && len(v.Content) > 0:
		words, err := list(v)
		return strings.Join(words, ","), err
	}
	return "", errors.New("has no value, or one of a wrong kind")
}

func list(v *yaml.Node) ([]string, error) {
	v = resolve(v)
	if v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
		return []string{v.Value}, nil
	}
	var words []string
	for _, item := range v.Content {
		item = resolve(item)
		if v.Kind != yaml.SequenceNode || item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return nil, errors.New("is not a list of values")
		}
		words = append(words, item.Value)
	}
	return words, nil
}

func resolve(v *yaml.Node) *yaml.Node {
	if v.Kind == yaml.AliasNode {
		return v.Alias
	}
	return v
}

// mapping calls f for each key and value of v. Keys must be known and differ.
func mapping(v *yaml.Node, what string, known []string, f func(key, value *yaml.Node) error) error {
	v = resolve(v)
	if v.Kind != yaml.MappingNode {
		return at(v, "%s consists of keys and values, such as \"%s: …\"", what, known[0])
	}
	seen := map[string]bool{}
	for i := 0; i < len(v.Content); i += 2 {
		key, value := v.Content[i], v.Content[i+1]
		switch name := key.Value; {
		case !slices.Contains(known, name):
			hint := didYouMean(name, known)
			if hint == "" {
				hint = fmt.Sprintf(": %s has %s", what, strings.Join(known, ", "))
			}
			return at(key, "unknown key %q%s", name, hint)
		case seen[name]:
			return at(key, "%s is there twice", name)
		default:
			seen[name] = true
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

func isMatrix(v *yaml.Node) bool {
	v = resolve(v)
	return v.Kind == yaml.SequenceNode && len(v.Content) > 0 && resolve(v.Content[0]).Kind == yaml.SequenceNode
}

func (s *simSpec) readMatrix(v *yaml.Node) error {
	for _, row := range resolve(v).Content {
		words, err := list(row)
		if err != nil {
			return at(row, "latency: a row %w", err)
		}
		var times []protocol.Duration
		for _, word := range words {
			d, err := parseSpan(word)
			if err != nil {
				return at(row, "latency: %w", err)
			}
			times = append(times, d)
		}
		s.matrix = append(s.matrix, times)
	}
	for _, row := range s.matrix {
		if len(row) != len(s.matrix) {
			return at(v, "latency: a matrix of %d rows has one of %d columns: it needs a row and a column for each participant", len(s.matrix), len(row))
		}
	}
	return nil
}

func (s *simSpec) readFaults(v *yaml.Node) error {
	v = resolve(v)
	if v.Kind != yaml.SequenceNode {
		return at(v, "faults is a list, such as [{at: 10s, what: crash, node: B}]")
	}
	for _, item := range v.Content {
		f := faultSpec{line: resolve(item).Line}
		err := mapping(item, "a fault", []string{"at", "what", "node", "groups", "to"}, func(key, value *yaml.Node) error {
			return f.set(key.Value, value)
		})
		if err != nil {
			return err
		}
		if f.what == "" {
			return at(item, "a fault needs what happens: %s", strings.Join(faultNames(), ", "))
		}
		if f.kind() < 0 {
			return at(item, "no fault is named %q%s: there are %s", f.what, didYouMean(f.what, faultNames()), strings.Join(faultNames(), ", "))
		}
		s.faults = append(s.faults, f)
	}
	return nil
}

func (f *faultSpec) set(key string, v *yaml.Node) error {
	if key == "groups" {
		v = resolve(v)
		if v.Kind != yaml.SequenceNode {
			return at(v, "groups is a list of lists, such as [[A, B], [C]]")
		}
		for _, group := range v.Content {
			ids, err := list(group)
			if err != nil {
				return at(group, "groups: a group %w", err)
			}
			f.groups = append(f.groups, ids)
		}
		return nil
	}
	text, err := scalar(v)
	switch {
	case err != nil:
	case key == "at":
		err = f.at.Set(text)
	case key == "what":
		f.what = text
	case key == "to":
		f.value = text
	default:
		f.nodes, err = list(v)
	}
	if err != nil {
		return at(v, "%s: %w", key, err)
	}
	return nil
}
