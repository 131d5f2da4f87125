package main

import (
	"strings"
	"testing"
)

// Names of others are text in a drawing, whatever they contain.
func TestHostileNamesInGraphs(t *testing.T) {
	const evil = "a]|b\"] --> c\n\u202e<i>"
	edges := []edge{
		{vertex{"lock", evil}, vertex{"participant", evil}, "held for " + evil, false},
		{vertex{"participant", evil}, vertex{"lock", evil}, "waits 1 for " + evil, true},
	}
	for _, test := range []struct {
		write func(*strings.Builder) error
		want  string
	}{
		{func(b *strings.Builder) error { return writeDOT(b, edges) }, `digraph domain {
	rankdir=LR
	"lock a]|b\"] --> c\\n\\u202e<i>" [shape=hexagon label="a]|b\"] --> c\\n\\u202e<i>"]
	"participant a]|b\"] --> c\\n\\u202e<i>" [shape=box label="a]|b\"] --> c\\n\\u202e<i>"]
	"lock a]|b\"] --> c\\n\\u202e<i>" -> "participant a]|b\"] --> c\\n\\u202e<i>" [label="held for a]|b\"] --> c\\n\\u202e<i>"]
	"participant a]|b\"] --> c\\n\\u202e<i>" -> "lock a]|b\"] --> c\\n\\u202e<i>" [label="waits 1 for a]|b\"] --> c\\n\\u202e<i>" style=dashed]
}
`},
		{func(b *strings.Builder) error { return writeMermaid(b, edges) }, `flowchart LR
	v0{{"a]|b#quot;] --#gt; c\n\u202e#lt;i#gt;"}}
	v1["a]|b#quot;] --#gt; c\n\u202e#lt;i#gt;"]
	v0 -->|"held for a]|b#quot;] --#gt; c\n\u202e#lt;i#gt;"| v1
	v1 -.->|"waits 1 for a]|b#quot;] --#gt; c\n\u202e#lt;i#gt;"| v0
`},
	} {
		var b strings.Builder
		if err := test.write(&b); err != nil || b.String() != test.want {
			t.Errorf("got %v\n%s\nwant\n%s", err, &b, test.want)
		}
	}
}
