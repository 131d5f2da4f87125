package main

import (
	"regexp"
	"testing"
)

func TestIDsInContainersDiffer(t *testing.T) {
	a, b := idOf("web", 1, true), idOf("web", 1, true)
	if form := regexp.MustCompile(`^web-1-[a-z2-7]{6}$`); a == b || !form.MatchString(a) || !form.MatchString(b) {
		t.Errorf("two processes 1 on machines called web: %q and %q", a, b)
	}
	if id := idOf("web", 4711, false); id != "web-4711" {
		t.Errorf("outside of containers: %q", id)
	}
	if first, again := ownID(), ownID(); first != again {
		t.Errorf("the id of a process changes from %q to %q", first, again)
	}
}
