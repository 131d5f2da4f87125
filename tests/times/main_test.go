package main

import (
	"strings"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	r, err := read(strings.NewReader(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"pass","Package":"p","Test":"TestB/sub","Elapsed":2}
{"Action":"output","Package":"p","Test":"TestB","Output":"why\n"}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":2.5}
{"Action":"fail","Package":"p","Elapsed":4}
{"Action":"pass","Package":"q","Elapsed":5}
{"Action":"skip","Package":"without","Elapsed":0}`))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.write(&out, 8*time.Second)
	want := `== failed: p TestB
why
== failed: p
seconds  package
    5.0  q
    4.0  p

seconds  the 2 slowest of 2 tests
    2.5  p TestB
    1.5  p TestA

8.0 seconds in all, building included; the packages add up to 9.0
`
	if out.String() != want {
		t.Errorf("printed\n%s\nnot\n%s", out.String(), want)
	}
}
