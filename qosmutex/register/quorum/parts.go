package quorum

import (
	"errors"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
)

// inParts makes writes in as few questions as can be: each has a key once, and fits
// into a message. A question that turns out too large is asked in halves.
func inParts(writes []register.Write, ask func([]register.Write) ([]register.Result, error)) []register.Result {
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
		n := fits(writes, todo)
		for !askSome(writes, todo[:n], results, ask) {
			n = (n + 1) / 2
		}
		todo = todo[n:]
	}
	return results
}

// fits returns how many of the first writes make one question.
func fits(writes []register.Write, todo []int) int {
	seen := map[string]bool{}
	bytes := 0
	for n, i := range todo {
		w := &writes[i]
		if bytes += len(w.Key) + len(w.Value) + 100; n > 0 && (bytes > caspaxos.MaxBytes || n == caspaxos.MaxBatch || seen[w.Key]) {
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
	if errors.Is(err, caspaxos.ErrLarge) && len(indices) > 1 {
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
