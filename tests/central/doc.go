// Package central measures the lock next to the simplest thing that does the same: a server
// with a queue for each lock, as anybody writes it in an afternoon. It has no fences, no
// sessions and no priorities, and does not notice when one of its clients dies.
//
//	make race-central
package central
