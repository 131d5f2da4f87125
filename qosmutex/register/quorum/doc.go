// Package quorum is a register of one, three or five voters. A [Voter] runs the
// machine of package caspaxos over a [Transport], with a journal for what it must not
// forget; a [Client] is a participant that is no voter and asks one.
//
// As long as a majority of voters is reachable, reads and writes succeed. Without it
// nothing is answered, and the error names the voters that are missing.
//
// # Setting up
//
// Start each voter with the same list and an empty file. They vote once all of them
// have started. A voter that lost its file cannot vote again, as it would have
// forgotten what it promised: start it with an empty file, then replace it, by
// itself or by another one, with [Voter.Replace] at one of the others, or from
// elsewhere with an [Operator], which also asks voters for their [Report].
package quorum
