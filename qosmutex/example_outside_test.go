package qosmutex_test

import (
	"context"
	"fmt"

	"padme/qosmutex"
)

// generous grants what is asked for: a test double for an application.
type generous struct{}

func (generous) Name() string                         { return "cranes" }
func (generous) GiveUp(*qosmutex.Pending) bool        { return true }
func (generous) Raise(*qosmutex.Pending, int64) error { return nil }
func (generous) Unlock(p *qosmutex.Pending)           { fmt.Println("given back:", p.Resource) }

// A Locker of one's own makes a Pending of each request, and decides it.
func ExampleNewPending() {
	ctx := context.Background()
	p, err := qosmutex.NewPending(ctx, ctx, generous{}, "crane", qosmutex.WithPriority(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	request := p.Request() // what its Ask returns
	fmt.Println(request.Decided())
	p.Grant(7, p.Priority)
	hold, err := request.Wait(ctx)
	fmt.Println(hold.Topic(), hold.Resource(), hold.Fence(), hold.Priority(), err)
	fmt.Println(hold.Unlock())
	// Output:
	// false
	// cranes crane 7 3 <nil>
	// given back: crane
	// <nil>
}
