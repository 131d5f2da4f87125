package filter

import (
	"fmt"
	"sync"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"padme/pubsub/internal/failure"
)

// maxText bounds the text of a filter, in bytes.
const maxText = 4 << 10

// An Expression is a filter that was understood: a pubsub.Expression.
type Expression struct {
	text     string
	program  *vm.Program
	machines sync.Pool // of *vm.VM, each for one goroutine
	names    []string
	fixed    map[string]any
}

// Parse understands the text of a filter, at most 4 KiB. Its errors wrap
// pubsub.ErrInvalid and say what is wrong.
func Parse(text string) (*Expression, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%w: the filter has %d bytes, the most is %d", failure.ErrInvalid, len(text), maxText)
	}
	source := fromSQL(text)
	tree, err := parser.Parse(source)
	var program *vm.Program
	if err == nil {
		program, err = expr.Compile(source, expr.AsBool(), expr.AllowUndefinedVariables(), expr.DisableAllBuiltins())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the filter %q cannot be understood: %w", failure.ErrInvalid, text, err)
	}
	var seen visitor
	ast.Walk(&tree.Node, &seen)
	if seen.wrong != "" {
		return nil, fmt.Errorf("%w: the filter %q %s", failure.ErrInvalid, text, seen.wrong)
	}
	x := &Expression{text: text, program: program, names: seen.names, fixed: map[string]any{}}
	x.machines.New = func() any { return new(vm.VM) }
	equalities(tree.Node, x.fixed)
	return x, nil
}

// visitor sees the nodes of an expression.
type visitor struct {
	names []string
	wrong string // what no filter may have, and what to write instead
}

// Visit implements ast.Visitor.
func (v *visitor) Visit(n *ast.Node) {
	switch n := (*n).(type) {
	case *ast.IdentifierNode:
		if v.names = append(v.names, n.Value); n.Value == "$env" {
			v.wrong = "names $env: name a field"
		}
	case *ast.CallNode, *ast.BuiltinNode:
		v.wrong = "calls a function, a filter has only operators"
	case *ast.SequenceNode: // of which only the last would count
		v.wrong = `has several expressions: write AND or OR instead of ";"`
	case *ast.ConditionalNode:
		if !n.Ternary {
			v.wrong = "has an if: write it with AND, OR and NOT"
		}
	}
}

// equalities collects the constants that names must be equal to for the expression to
// hold.
func equalities(n ast.Node, fixed map[string]any) {
	b, ok := n.(*ast.BinaryNode)
	if !ok {
		return
	}
	switch b.Operator {
	case "and", "&&":
		equalities(b.Left, fixed)
		equalities(b.Right, fixed)
	case "==":
		left, right := b.Left, b.Right
		if _, ok := left.(*ast.IdentifierNode); !ok {
			left, right = right, left
		}
		if id, ok := left.(*ast.IdentifierNode); ok {
			fixed[id.Value] = constant(right)
		}
	}
}

// constant returns nil for what is none.
func constant(n ast.Node) any {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return n.Value
	}
	return nil
}

// Names are the fields that the expression mentions.
func (x *Expression) Names() []string { return x.names }

// CheckTypes refuses an expression that can have no answer, or never holds, for samples with
// fields of these types, of which it gets a value each. Others may be of any type.
func (x *Expression) CheckTypes(fields map[string]any) error {
	_, err := expr.Compile(fromSQL(x.text), expr.Env(fields), expr.AllowUndefinedVariables(), expr.AsBool(), expr.DisableAllBuiltins())
	if err != nil {
		return fmt.Errorf("%w: the filter %q does not fit the types of the fields: %w", failure.ErrInvalid, x.text, err)
	}
	return nil
}

// Fixed are fields that must have these values for the expression to hold; nil stands for
// what is no string, bool or int.
func (x *Expression) Fixed() map[string]any { return x.fixed }

// String returns the text.
func (x *Expression) String() string { return x.text }

// Holds reports whether the expression is true of a sample with these fields. Several
// goroutines may call it at once. An error says why there is no answer.
func (x *Expression) Holds(fields map[string]any) (bool, error) {
	machine := x.machines.Get().(*vm.VM)
	defer x.machines.Put(machine)
	answer, err := machine.Run(x.program, fields)
	if err != nil {
		return false, err
	}
	holds, ok := answer.(bool)
	if !ok {
		return false, fmt.Errorf("it is %v", answer)
	}
	return holds, nil
}
