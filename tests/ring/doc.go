// Package ring measures what it costs that participants find each other: each of them has
// one writer and one reader, which the next and the one before match.
package ring
