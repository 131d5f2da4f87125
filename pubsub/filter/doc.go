// Package filter is a language for the content filters of readers, for example
//
//	x > 5 AND name = 'a'
//
// Names are those of the fields of a sample as they are on the wire; "value" is a sample
// that has no fields. It is the language of github.com/expr-lang/expr without
// functions, variables, if and ";"; AND, OR, NOT, = and <> are those of SQL, but that NOT
// binds tighter than a comparison: NOT (x = 5).
package filter
