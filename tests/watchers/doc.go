// Package watchers holds the tests of what those who only watch may do to locks,
// which is nothing, and of what they can read without this project's library.
package watchers
