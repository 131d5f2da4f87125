package jsonlock

import (
	"errors"
	"strings"
	"testing"
)

// What is wrong with a request is said in the words of JSON, not of Go.
func TestMistakesAreToldInTheWordsOfJSON(t *testing.T) {
	for payload, says := range map[string]string{
		`{"op":"acquire","id":"1","priority":"high"}`: `field "priority" is of type string: give a whole number`,
		`{"op":"acquire","id":"1","priority":1.5}`:    `field "priority" is of type number 1.5: give a whole number`,
		`{"op":"acquire","id":7}`:                     `field "id" is of type number: give a string`,
		`{"op":"acquire","id":"1","wait_ms":"5s"}`:    `field "wait_ms" is of type string: give a whole number`,
		`{"op":"acquire","id":"1","sent":"soon"}`:     `sent is a number`,
		`["acquire"]`: `a request is a JSON object, this is of type array`,
		`{"op":`:      `not JSON: unexpected end of JSON input`,
		`acquire`:     `not JSON: invalid character 'a'`,
	} {
		_, err := DecodeRequest([]byte(payload))
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != Malformed || !strings.Contains(r.Detail, says) {
			t.Errorf("%s: %v, want %s", payload, err, says)
		}
		for _, word := range []string{"int64", "Go ", "struct", "requestJSON"} {
			if err != nil && strings.Contains(err.Error(), word) {
				t.Errorf("%s is told in the words of Go: %v", payload, err)
			}
		}
	}
}
