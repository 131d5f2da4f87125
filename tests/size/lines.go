package main

import (
	"go/scanner"
	"go/token"
	"strings"
)

// forms counts the lines of a file by the end of its name.
var forms = map[string]func(text string) count{
	".go":   goLines,
	".js":   marked("//", "/*", "*", "*/"),
	".mjs":  marked("//", "/*", "*", "*/"),
	".ts":   marked("//", "/*", "*", "*/"),
	".css":  marked("/*", "*"),
	".html": marked("<!--"),
	".py":   marked("#"),
	".sh":   marked("#"),
}

// goLines asks Go's scanner what is on each line: a line inside of a string in
// backquotes is code, blank or not.
func goLines(text string) count {
	const blank, comment, code = 0, 1, 2
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	kinds := make([]int, strings.Count(text, "\n")+2)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // inserted by the scanner
		}
		kind := code
		if tok == token.COMMENT {
			kind = comment
		}
		first := file.Line(pos)
		for line := first; line <= first+strings.Count(literal, "\n"); line++ {
			kinds[line] = max(kinds[line], kind)
		}
	}
	var c count
	for line := 1; line <= strings.Count(text, "\n"); line++ {
		switch kinds[line] {
		case code:
			c.code++
		case comment:
			c.comment++
		default:
			c.blank++
		}
	}
	return c
}

// marked takes a line for a comment if it begins with one of these marks, which is
// exact enough for the languages other than Go.
func marked(marks ...string) func(text string) count {
	return func(text string) count {
		var c count
		for line := range strings.Lines(text) {
			c.add(markedLine(strings.TrimSpace(line), marks))
		}
		return c
	}
}

func markedLine(line string, marks []string) count {
	if line == "" {
		return count{blank: 1}
	}
	for _, mark := range marks {
		if strings.HasPrefix(line, mark) {
			return count{comment: 1}
		}
	}
	return count{code: 1}
}
