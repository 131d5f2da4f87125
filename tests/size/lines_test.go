package main

import "testing"

func TestLinesOfGo(t *testing.T) {
	text := "// Package a is one.\npackage a\n\n/* two\n\nthree */\nvar s = `four\n\nfive` // six\n\nfunc f() {} // seven\n"
	if got, want := goLines(text), (count{code: 5, comment: 4, blank: 2}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

func TestLinesOfOtherLanguages(t *testing.T) {
	if got, want := forms[".py"]("# one\n\nx = 1 # two\n"), (count{code: 1, comment: 1, blank: 1}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

func TestWhatIsATest(t *testing.T) {
	for name, want := range map[string]bool{
		"pubsub/a_test.go": true, "tests/soak/run.go": true, "clients/js/test/a.mjs": true,
		"qosmutex/register/registertest/a.go": true, "pubsub/latest.go": false, "clients/js/src/tests.mjs": false,
	} {
		if isTest(name) != want {
			t.Errorf("%s counts as a test: %v", name, !want)
		}
	}
}
