package registertest

import (
	"testing"

	"github.com/anishathalye/porcupine"

	"padme/qosmutex/register"
)

// The checker must see what must not happen.
func TestModelRefuses(t *testing.T) {
	v := func(counter, nonce uint64) register.Version { return register.Version{Counter: counter, Nonce: nonce} }
	op := func(c call, o outcome, from, to int64) porcupine.Operation {
		c.key = "crane"
		return porcupine.Operation{ClientId: int(from), Input: c, Output: o, Call: from, Return: to}
	}
	write := func(old, made register.Version) call { return call{write: true, old: old, new: made} }
	first := op(write(v(0, 0), v(1, 1)), outcome{made: true}, 0, 1)
	lost := op(write(v(0, 0), v(1, 1)), outcome{unknown: true}, 0, 1<<62)
	for name, c := range map[string]struct {
		legal bool
		ops   []porcupine.Operation
	}{
		"a read of what was written":     {true, []porcupine.Operation{first, op(call{}, outcome{current: v(1, 1)}, 2, 3)}},
		"a stale read":                   {false, []porcupine.Operation{first, op(call{}, outcome{current: v(0, 0)}, 2, 3)}},
		"a stale read at the same time":  {true, []porcupine.Operation{first, op(call{}, outcome{current: v(0, 0)}, 0, 3)}},
		"two that replace the same":      {false, []porcupine.Operation{first, op(write(v(0, 0), v(1, 2)), outcome{made: true}, 2, 3)}},
		"a conflict with what is not":    {false, []porcupine.Operation{first, op(write(v(0, 0), v(1, 2)), outcome{current: v(1, 3)}, 2, 3)}},
		"a conflict with what is old":    {false, []porcupine.Operation{first, op(write(v(1, 1), v(2, 2)), outcome{current: v(1, 1)}, 2, 3)}},
		"an unknown one that was made":   {true, []porcupine.Operation{lost, op(call{}, outcome{current: v(1, 1)}, 5, 6)}},
		"an unknown one that was not":    {true, []porcupine.Operation{lost, op(call{}, outcome{current: v(0, 0)}, 5, 6)}},
		"an unknown one that comes late": {true, []porcupine.Operation{lost, op(call{}, outcome{current: v(0, 0)}, 5, 6), op(call{}, outcome{current: v(1, 1)}, 7, 8)}},
		"one that is resurrected": {false, []porcupine.Operation{
			lost, op(write(v(0, 0), v(1, 2)), outcome{made: true}, 2, 3), op(call{}, outcome{current: v(1, 1)}, 5, 6),
		}},
	} {
		if got := porcupine.CheckOperations(model, c.ops); got != c.legal {
			t.Errorf("%s: linearizable %v, want %v", name, got, c.legal)
		}
	}
}
