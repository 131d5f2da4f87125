// Package hostile holds the tests of what somebody who means harm can do to a real
// node with its broker, with and without an account: locks go on being served one at
// a time, the memory of the node stays bounded, and the counters say what was tried.
package hostile
