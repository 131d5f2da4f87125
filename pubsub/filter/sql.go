package filter

import "strings"

// fromSQL writes the operators of SQL as those of expr, outside of strings.
func fromSQL(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		n := tokenEnd(text[i:])
		token := text[i : i+n]
		switch token {
		case "AND", "OR", "NOT":
			token = strings.ToLower(token)
		case "=":
			token = "=="
		case "<>":
			token = "!="
		}
		out.WriteString(token)
		i += n
	}
	return out.String()
}

// tokenEnd is the length of the string, word or operator which text begins with.
func tokenEnd(text string) int {
	const operators = "=<>!"
	isWord := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
	}
	span := func(in func(byte) bool) (n int) {
		for n < len(text) && in(text[n]) {
			n++
		}
		return n
	}
	switch c := text[0]; {
	case strings.IndexByte("'\"`", c) >= 0:
		for i := 1; i < len(text); i++ {
			switch {
			case text[i] == '\\' && c != '`':
				i++
			case text[i] == c:
				return i + 1
			}
		}
		return len(text)
	case strings.IndexByte(operators, c) >= 0:
		return span(func(c byte) bool { return strings.IndexByte(operators, c) >= 0 })
	case isWord(c):
		return span(isWord)
	}
	return 1
}
