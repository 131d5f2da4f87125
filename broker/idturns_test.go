package broker

import (
	"fmt"
	"testing"
)

// Those of one client id take turns, and wait for no other.
func TestTurnsAreOfOneClientID(t *testing.T) {
	var turns idTurns
	slow := turns.take("slow")
	for i := range 1000 {
		defer turns.take(fmt.Sprint(i))() // or it hangs
	}
	if turns.takeFree("slow") != nil {
		t.Error("two have the turn")
	}
	var first bool
	next := make(chan bool)
	go func() {
		give := turns.take("slow")
		had := first
		give()
		next <- had
	}()
	first = true
	slow()
	if !<-next {
		t.Error("two have the turn")
	}
	if give := turns.takeFree("slow"); give == nil {
		t.Error("the turn is free, and not to be had")
	} else {
		give()
	}
	if len(turns.held) != 1000 {
		t.Errorf("%d are held", len(turns.held))
	}
}
