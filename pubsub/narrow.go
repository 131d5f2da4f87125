package pubsub

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/expr-lang/expr/ast"
)

// A narrow reader has one instance, to whose topic alone it subscribes. Of the
// numbers of a writer it sees only some, so its writers tell it with each sample
// which number the instance had before, and count what they hold for it by the
// instance.

// WithInstance lets a reader have only the instance that v's key fields name. It
// subscribes to that instance alone: what is written to others costs it nothing.
// T must be the topic's type and have a key.
func WithInstance[T any](v T) EndpointOption {
	return func(o *endpointOptions) { o.instance = v }
}

// only returns the key of the one instance that a reader wants, "" for all.
func (t *Topic[T]) only(o *endpointOptions) (string, error) {
	if o.instance != nil {
		v, ok := o.instance.(T)
		if !ok || len(t.keys) == 0 {
			return "", fmt.Errorf("%w: WithInstance has a %T, samples of topic %q are of type %s with %d key fields", ErrInvalid, o.instance, t.name, t.typ, len(t.keys))
		}
		return t.key(v), nil
	}
	if o.expression == nil {
		return "", nil
	}
	x, err := parseExpression(*o.expression)
	if err != nil {
		return "", err
	}
	return x.instance(reflect.TypeFor[T](), t.keys, t.codec), nil
}

// instance returns the key that the expression fixes, "" if it does not.
func (x *expression) instance(t reflect.Type, keys []int, codec Codec) string {
	fields, ok := wireFields(t, codec)
	if !ok || len(keys) == 0 {
		return ""
	}
	fixed := map[string]ast.Node{}
	equalities(x.tree.Node, fixed)
	v := reflect.New(t).Elem()
	found := 0
	for name, node := range fixed {
		f, ok := fields[name]
		if !ok || f.Tag.Get("pubsub") != "key" {
			continue
		}
		if !setConstant(v.FieldByIndex(f.Index), node) {
			return ""
		}
		found++
	}
	if found < len(keys) {
		return ""
	}
	return keyText(v, keys)
}

// equalities collects what must be equal for the expression to hold.
func equalities(n ast.Node, fixed map[string]ast.Node) {
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
			fixed[id.Value] = right
		}
	}
}

// setConstant reports whether a node is a constant that the field can have.
func setConstant(f reflect.Value, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.StringNode:
		if f.Kind() == reflect.String {
			f.SetString(n.Value)
			return true
		}
	case *ast.BoolNode:
		if f.Kind() == reflect.Bool {
			f.SetBool(n.Value)
			return true
		}
	case *ast.IntegerNode:
		switch {
		case f.CanInt() && !f.OverflowInt(int64(n.Value)):
			f.SetInt(int64(n.Value))
			return true
		case f.CanUint() && n.Value >= 0 && !f.OverflowUint(uint64(n.Value)):
			f.SetUint(uint64(n.Value))
			return true
		}
	}
	return false
}

// begin makes r a narrow reader if e asks for one instance.
func (s *sender) begin(r *remoteReader, e *endpoint) {
	if e.QoS.Instance == "" {
		return
	}
	level, err := EncodeLevel(e.QoS.Instance)
	if err != nil { // it names an instance that nobody can write
		level = "-/"
	}
	r.instance, r.last = level, r.base
	for seq, h := range s.held {
		if h.key == level {
			r.last = max(r.last, seq)
		}
	}
}

// interest counts the reliable readers which want an instance. previous is one
// more than a number after which the instance was not written; 0 if no narrow
// reader wants to know. The least such number that is known is that of the last
// sample; a reader that has only come since then knows a higher one, which to
// others would be a sample that they lack.
func (s *sender) interest(key string) (readers int, previous uint64) {
	var written, unwritten uint64
	for _, r := range s.readers {
		switch {
		case !r.reliable:
		case r.instance == "":
			readers++
		case r.instance == key:
			readers++
			if r.last > r.base { // a sample that was there
				written = max(written, r.last+1)
			} else if unwritten == 0 || r.last < unwritten {
				unwritten = r.last + 1
			}
		}
	}
	return readers, cmp.Or(written, unwritten)
}

// accountFor notes a sample for the narrow readers of its instance.
func (s *sender) accountFor(key string) {
	for _, r := range s.readers {
		if r.instance == key {
			r.last = s.seq
		}
	}
}

// wants reports whether a held sample is for r.
func (r *remoteReader) wants(h *heldSample) bool {
	return h != nil && (r == nil || r.instance == "" || r.instance == h.key)
}

// reached is up to where r has all that it wants.
func (s *sender) reached(r *remoteReader) uint64 {
	if r.instance != "" && r.acked >= r.last {
		return s.seq
	}
	return r.acked
}

// extent is what a heartbeat to r tells: from where samples are held, and the
// last one.
func (s *sender) extent(r *remoteReader) (first, last uint64) {
	if r.instance == "" {
		return s.low, s.seq
	}
	return min(s.low, r.last+1), r.last
}

// follows reports whether s is the next sample that the reader wants from w.
func (r *receiver) follows(w *remoteWriter, s *inSample) bool {
	return s.seq == w.next || r.narrow && s.seq > w.next && s.previous > 0 && s.previous <= w.next
}

// following returns the next sample among those that came early.
func (r *receiver) following(w *remoteWriter) *inSample {
	if s := w.early[w.next]; s != nil || !r.narrow {
		return s
	}
	for _, s := range w.early {
		if r.follows(w, s) {
			return s
		}
	}
	return nil
}

// missed tells of samples of its instance that a narrow reader will not see: at
// least the one before s.
func (r *receiver) missed(w *remoteWriter, s *inSample) {
	before := s.previous
	if before > 0 {
		before--
	}
	if before > max(w.mine, w.historic) {
		r.events.add(SampleLost{w.guid, 1})
	}
	w.mine = s.seq
}
