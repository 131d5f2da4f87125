package jsonlock_test

import (
	"errors"
	"fmt"

	"padme/qosmutex/jsonlock"
)

// What is left out has a default.
func ExampleDecodeRequest() {
	r, err := jsonlock.DecodeRequest([]byte(`{"op":"acquire","id":"7","wait_ms":5000}`))
	fmt.Println(r.Op, r.ID, r.Resource, r.Priority, r.Wait, r.Lease, err)
	_, err = jsonlock.DecodeRequest([]byte(`{"op":"sing","id":"7"}`))
	fmt.Println(err)
	// Output:
	// acquire 7 default 100 5s 10s <nil>
	// jsonlock: bad_op: op "sing": give acquire, renew, raise, release, query, show or gone
}

func ExampleNew() {
	r := jsonlock.New(jsonlock.Acquire)
	r.ID, r.Priority = "7", 5
	payload, err := r.Encode()
	fmt.Println(string(payload), err)
	// Output:
	// {"op":"acquire","id":"7","priority":5} <nil>
}

func ExampleDecodeAnswer() {
	a, err := jsonlock.DecodeAnswer([]byte(`{"id":"7","outcome":"granted","resource":"default","fence":"1793491204360607","sent":187223,"valid_ms":2703}`))
	fmt.Println(a.Outcome, a.Fence, a.Valid(), err)
	// Output:
	// granted 1793491204360607 2.703s <nil>
}

func ExampleCheckResource() {
	fmt.Println(jsonlock.CheckResource("hook"), jsonlock.CheckResource(jsonlock.Any))
	fmt.Println(jsonlock.CheckResource("a\x00"))
	// Output:
	// <nil> <nil>
	// jsonlock: bad_resource: resource "a\x00" cannot be a level of a topic
}

// Who serves says in an answer what was wrong with a request.
func ExampleRefuse() {
	err := jsonlock.Refuse(jsonlock.TooMany, "%d requests of this client live already", 32)
	var why *jsonlock.Refusal
	fmt.Println(errors.As(err, &why), why.Reason, why.Detail)
	// Output:
	// true too_many 32 requests of this client live already
}
