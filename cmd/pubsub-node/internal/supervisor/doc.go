// Package supervisor keeps a command from outliving the process that holds a lock for it,
// also when that process is killed and can tell nobody.
//
// The supervisor is a process between the two: this program, started once more. It starts
// the command in a process group of its own and is connected with the holder by a socket.
// When the holder closes that, or dies, the supervisor ends the command and everything that
// it has started: TERM at once, KILL after a while. What everything is, differs:
//
//   - On Linux it is every descendant, those that left the process group included, since the
//     supervisor adopts what loses its parent. If the supervisor is killed, the kernel kills
//     the command, and the holder, which then adopts what is left, ends that.
//   - On other Unix systems it is the process group: what left that, by setsid say, goes on.
//     If the supervisor is killed, the holder ends the process group.
//   - Elsewhere there is no supervisor: package main starts the command itself.
//
// Where both are killed at once the command gets KILL on Linux, and nothing elsewhere; what
// the command has started goes on. When the command ends by itself, what it left in the
// background is left alone.
//
// The program becomes a supervisor while its packages are initialized, before most of them
// are: that takes one or two milliseconds in place of several. Packages are initialized in the
// order of their paths as soon as what they import is, and much waits for reflect: so this
// package imports nothing that comes after that, such as strings, or after fmt.
package supervisor
