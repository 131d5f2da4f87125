package main

import (
	"strconv"
	"strings"
	"unicode"
)

// printable replaces what a terminal would obey or could not show. Names,
// priorities and payloads come from other participants: an escape sequence among
// them must not reach the operator's terminal.
func printable(s string) string {
	clean := func(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
