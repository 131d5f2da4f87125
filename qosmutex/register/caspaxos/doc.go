// Package caspaxos is the register of a few voters that agree: CASPaxos (Denis
// Rystsov, arXiv:1802.07000) as a deterministic machine. It knows no clock, network,
// disk or chance: a [Machine] is told the time, the messages that arrived and what its
// own application asks, and answers with what to write to disk, what to send and what
// to tell the application. Package quorum runs it.
//
// # How a write is made
//
// Each key is an instance of Paxos of its own, whose value is replaced again and again
// under rising ballots. A voter that proposes asks all for a promise not to accept
// anything under a lower [Ballot], and for what they have accepted. Once a majority has
// promised, the highest accepted state is the current one. The proposer replaces it, or
// writes it again if the compare-and-set fails, and is done when a majority has
// accepted. One message carries many keys. Only voters propose, also on behalf of
// others.
//
// A read asks without a promise: if a majority has accepted the same ballot, that is
// the answer. Else it asks again a little later, and in the end it is a write that changes
// nothing.
//
// # What is on disk
//
//   - An accepted state, before it is acknowledged, unless it is a mere renewal of one
//     that is on disk, and that a majority has on disk under one ballot. A renewal that
//     its writer relies on for longer than [Options.Lease] is written, too.
//   - A ceiling on the rounds that were promised or used, raised in blocks. A voter that
//     restarts promises nothing up to the ceiling, so that a promise needs no sync.
//   - Its name and instance, and the configuration.
//   - How long it must be silent after a restart.
//   - Other renewals, which are not synced.
//
// A voter whose machine has restarted may have forgotten those. So it answers nothing for the
// [Options.Quiet] of the run before, which is the Lease, stretched by the drift of
// clocks: then what it forgot has expired. What its callers must know: a renewal that
// was acknowledged and forgotten leaves the version before it.
//
// # Configurations
//
// Voters are a fixed list. The first one in order waits until all have enrolled, draws
// a domain, and tells all the first configuration, with the instance of each. Every
// message names domain and configuration.
//
// To replace a voter is to write the next configuration under a key of its own, which
// is empty. A voter that learns of the decision seals its configuration: it promises
// and accepts nothing in it any more. Each voter of the next one fetches what a
// majority of sealed voters has accepted, or one voter that is ahead of it, keeps the
// highest state of each key, and only then answers. Two may have copied different
// states of a key, of which neither was chosen, so what was copied is not chosen
// before it is written again.
package caspaxos
