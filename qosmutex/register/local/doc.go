// Package local is a register of one process. [Open] keeps it in a file, and a restart
// forgets no write but renewals, whose writer it was in the same process. [Memory]
// keeps it nowhere, for tests and demos.
//
// It has no second voter that knows better, so a file that was restored from a backup
// would bring back what is long over. Open refuses the copies that it can tell; see
// package journal.
package local
