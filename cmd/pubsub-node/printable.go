package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
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

// who names a holder or waiter on a terminal: a client with the participant that it asks
// through.
func who(name, via string) string {
	if via == "" {
		return printable(name)
	}
	return printable(name) + " (via " + printable(via) + ")"
}

// shellWord quotes a name in a command that is proposed, where the shell needs that.
func shellWord(name string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./,:", r)
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// escapeUnprintable writes what a terminal does not show, or obeys, in lines of JSON as
// JSON's escapes: other people's names may turn the direction of the text around them. What
// is no UTF-8 becomes U+FFFD, as json.Marshal does with strings.
func escapeUnprintable(lines []byte) []byte {
	out := make([]byte, 0, len(lines))
	for len(lines) > 0 {
		r, size := utf8.DecodeRune(lines)
		switch {
		case r == utf8.RuneError && size == 1:
			out = utf8.AppendRune(out, r)
		case r == '\n' || unicode.IsPrint(r):
			out = append(out, lines[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		lines = lines[size:]
	}
	return out
}
