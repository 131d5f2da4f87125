// Package docs holds tests that hold the documentation to its word. Every command of
// README and of the pages a newcomer reads is run as it stands there, in terminals as
// the page tells, and prints what the page says; every link leads somewhere; every
// flag, test, scenario and make target that a page names exists; every promise and every
// bug names a test; packages import what the architecture says; Prometheus takes the alert
// rules and the queries of the dashboard, and our programs serve what these name.
//
// A page says in comments that a reader does not see how the block below is meant:
//
//	<!-- run 1 -->        typed into terminal 1, which waits until it has succeeded;
//	                      "run 1 2" into both
//	<!-- start 1 -->      the same, but it goes on while the page does
//	<!-- prints 1 -->     what terminal 1 prints since then: these lines in this order,
//	                      others between them; … stands for anything within a line
//	<!-- awaits 1 TEXT -->
//	                      a line of terminal 1 that a reader would wait for unasked
//	                      (no block follows)
//	<!-- interrupt 1 -->  Ctrl-C in terminal 1 (no block follows)
//	<!-- shows FILE -->   the block is a part of this file of the repository
//	<!-- not run: WHY -->
//
// The terminals of a page share a network namespace of their own, so that commands
// may use the usual ports, and begin in the repository's root.
package docs
