// Package registertest is what every register has to pass: the contract of
// [register.Register], call by call, and histories of concurrent calls that must be
// linearizable. Only tests import it.
package registertest
