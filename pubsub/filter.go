package pubsub

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// maxExpression bounds the text of a filter, in bytes.
const maxExpression = 4 << 10

// WithFilter lets a reader have only the samples for which keep returns true; the
// others count as received, and do not use room in its history. Changes of state
// come for the instances of which a sample was kept. keep runs where the network is
// read: it must be quick, and must not block or call the reader. T must be the
// topic's type.
func WithFilter[T any](keep func(T) bool) EndpointOption {
	return func(o *endpointOptions) { o.filter = keep }
}

// WithExpression is WithFilter in text, for example
//
//	x > 5 AND name = 'a'
//
// Names are those of the fields as they are on the wire, "value" is a sample that
// has no fields. It is the language of github.com/expr-lang/expr without its
// functions; AND, OR, NOT, = and <> are those of SQL, but that
// NOT binds tighter than a comparison: NOT (x = 5). A sample for which the
// expression has no answer, because a field is missing or of another type, is
// dropped with a SampleRejected event.
//
// An expression that fixes all key fields, as in "robot = 'r1' AND x > 5", makes
// the reader subscribe to that instance alone.
func WithExpression(text string) EndpointOption {
	return func(o *endpointOptions) { o.expression = &text }
}

// keeper decides whether a reader gets the sample encoded in body.
type keeper func(body []byte) (bool, error)

// keeper returns nil if every sample is wanted.
func (t *Topic[T]) keeper(o *endpointOptions) (keeper, error) {
	var all []keeper
	if o.filter != nil {
		keep, ok := o.filter.(func(T) bool)
		if !ok || keep == nil {
			return nil, fmt.Errorf("%w: the filter is a %T, samples of topic %q are of type %s", ErrInvalid, o.filter, t.name, t.typ)
		}
		all = append(all, func(body []byte) (bool, error) {
			var v T
			err := t.codec.decode(body, &v)
			return err == nil && keep(v), err
		})
	}
	if o.expression != nil {
		x, err := parseExpression(*o.expression)
		if err == nil {
			err = x.checkFields(reflect.TypeFor[T](), t.codec)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, x.keeper(t.codec))
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return func(body []byte) (bool, error) {
		for _, keep := range all {
			if ok, err := keep(body); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}, nil
}

// wanted applies the content filter.
func (r *receiver) wanted(s *inSample) bool {
	if s.status != statusData {
		return r.cache.byKey[s.key] != nil
	}
	ok, err := r.keep(s.body)
	if err != nil {
		if !errors.Is(err, errNoAnswer) {
			r.drop(dropMalformed)
		}
		r.events.add(SampleRejected{s.writer.guid, err})
	}
	return ok && err == nil
}

// expression is a filter in text.
type expression struct {
	text    string
	tree    *parser.Tree
	program *vm.Program
	names   []string // that it mentions
	calls   bool     // a function
}

// Visit is called by ast.Walk.
func (x *expression) Visit(n *ast.Node) {
	switch n := (*n).(type) {
	case *ast.IdentifierNode:
		x.names = append(x.names, n.Value)
	case *ast.CallNode, *ast.BuiltinNode:
		x.calls = true
	}
}

func parseExpression(text string) (*expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("%w: the filter has %d bytes, the most is %d", ErrInvalid, len(text), maxExpression)
	}
	source := fromSQL(text)
	tree, err := parser.Parse(source)
	var program *vm.Program
	if err == nil {
		program, err = expr.Compile(source, expr.AsBool(), expr.AllowUndefinedVariables(), expr.DisableAllBuiltins())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the filter %q cannot be understood: %w", ErrInvalid, text, err)
	}
	x := &expression{text: text, tree: tree, program: program}
	ast.Walk(&x.tree.Node, x)
	if x.calls {
		return nil, fmt.Errorf("%w: the filter %q calls a function, a filter has only operators", ErrInvalid, text)
	}
	return x, nil
}

var errNoAnswer = errors.New("pubsub: the filter has no answer for a sample")

// keeper must not be called from two goroutines at once.
func (x *expression) keeper(codec Codec) keeper {
	var machine vm.VM
	return func(body []byte) (bool, error) {
		var v any
		if err := codec.decode(body, &v); err != nil {
			return false, err
		}
		fields, ok := v.(map[string]any)
		if !ok {
			fields = map[string]any{"value": v}
		}
		answer, err := machine.Run(x.program, fields)
		if err != nil {
			return false, fmt.Errorf("%w: %q: %w", errNoAnswer, x.text, err)
		}
		keep, ok := answer.(bool)
		if !ok {
			return false, fmt.Errorf("%w: %q is %v", errNoAnswer, x.text, answer)
		}
		return keep, nil
	}
}

// checkFields finds names that no sample of a struct type can have.
func (x *expression) checkFields(t reflect.Type, codec Codec) error {
	fields, ok := wireFields(t, codec)
	if !ok {
		return nil
	}
	for _, n := range x.names {
		if _, ok := fields[n]; !ok {
			return fmt.Errorf("%w: the filter %q names %q, which is no field of %s as %s writes it", ErrInvalid, x.text, n, t, codec)
		}
	}
	return nil
}

// wireFields finds the fields of a struct by their names on the wire. It reports
// false where the codec's rules are not so simple, or t is no struct.
func wireFields(t reflect.Type, codec Codec) (fields map[string]reflect.StructField, ok bool) {
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	fields = map[string]reflect.StructField{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			return nil, false
		}
		name, _, _ := strings.Cut(f.Tag.Get(string(codec)), ",")
		switch {
		case !f.IsExported() || name == "-":
		case name == "":
			fields[f.Name] = f
		default:
			fields[name] = f
		}
	}
	return fields, len(fields) > 0
}

// fromSQL writes the operators of SQL as those of expr, outside of strings.
func fromSQL(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		n := tokenEnd(text[i:])
		token := text[i : i+n]
		switch token {
		case "AND", "OR", "NOT":
			token = strings.ToLower(token)
		case "=":
			token = "=="
		case "<>":
			token = "!="
		}
		out.WriteString(token)
		i += n
	}
	return out.String()
}

// tokenEnd is the length of the string, word or operator which text begins with.
func tokenEnd(text string) int {
	const operators = "=<>!"
	isWord := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
	}
	span := func(in func(byte) bool) (n int) {
		for n < len(text) && in(text[n]) {
			n++
		}
		return n
	}
	switch c := text[0]; {
	case strings.IndexByte("'\"`", c) >= 0:
		for i := 1; i < len(text); i++ {
			switch {
			case text[i] == '\\' && c != '`':
				i++
			case text[i] == c:
				return i + 1
			}
		}
		return len(text)
	case strings.IndexByte(operators, c) >= 0:
		return span(func(c byte) bool { return strings.IndexByte(operators, c) >= 0 })
	case isWord(c):
		return span(isWord)
	}
	return 1
}
