// Package parts divides a call with many writes into questions that a register can
// answer at once.
package parts

import (
	"errors"

	"padme/qosmutex/register"
)

// ErrLarge is what a question answers that was too large all the same. Nothing was
// written.
var ErrLarge = errors.New("register: too large for one question")

// Limits bound one question.
type Limits struct {
	Writes int
	Bytes  int // of keys and values
}

// CompareAndSet makes writes in as few questions as can be: each has a key once, and
// a nonce for each write. A question that is ErrLarge is asked in halves.
func CompareAndSet(writes []register.Write, most Limits, ask func([]register.Write) ([]register.Result, error)) []register.Result {
	results := make([]register.Result, len(writes))
	todo := make([]int, 0, len(writes))
	for i := range writes {
		if err := writes[i].Check(); err != nil {
			results[i].Err = err
		} else {
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		n := fits(writes, todo, most)
		for !askSome(writes, todo[:n], results, ask) {
			n = (n + 1) / 2
		}
		todo = todo[n:]
	}
	return results
}

// fits returns how many of the first writes make one question.
func fits(writes []register.Write, todo []int, most Limits) int {
	const head = 100 // of a write, in a message
	seen := map[string]bool{}
	bytes := 0
	for n, i := range todo {
		w := &writes[i]
		if bytes += len(w.Key) + len(w.Value) + head; n > 0 && (bytes > most.Bytes || n == most.Writes || seen[w.Key]) {
			return n
		}
		seen[w.Key] = true
	}
	return len(todo)
}

// askSome asks one question, and reports false if it was too large.
func askSome(writes []register.Write, indices []int, results []register.Result, ask func([]register.Write) ([]register.Result, error)) bool {
	some := make([]register.Write, len(indices))
	for n, i := range indices {
		some[n] = writes[i]
		if some[n].Nonce == 0 {
			some[n].Nonce = register.NewNonce()
		}
		some[n].Value = append([]byte(nil), some[n].Value...)
	}
	got, err := ask(some)
	if errors.Is(err, ErrLarge) && len(indices) > 1 {
		return false
	}
	for n, i := range indices {
		if err != nil {
			results[i] = register.Result{Err: err}
		} else {
			results[i] = got[n]
		}
	}
	return true
}
