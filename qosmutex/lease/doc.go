// Package lease decides who is the root of one lock topic, for one participant that
// may become it: a candidate. The topic's [protocol.Record] is kept in a register, a
// linearizable compare-and-set by key; the participant that the record names
// is the root for as long as its lease runs.
//
// A [Machine] is a deterministic function of what happened, like every machine of
// package protocol: no goroutine, clock, network or random source. Its [Input] is what
// the lock machine of the participant says and what the register answers, and its
// [Output] what that machine is told and the register is asked; package candidate
// connects the two machines.
//
// # The rules
//
//   - Only a write of its own makes a candidate the root: it is one from the moment it
//     learns that its write was made until the first send of that write + the lease,
//     less the drift. A retry carries the nonce of the first attempt, and the lease
//     counts from the first.
//   - The root renews every quarter of the lease, under a new nonce.
//   - Another candidate may take over when it has known a version for Lease·(1+ρ)/(1−ρ)
//     and the register still has it: the write replaces that version, so it wins or
//     loses cleanly against a renewal. Candidates queue by rank, an eighth of the lease
//     apart.
//   - After a conflict or an unknown outcome the record alone decides.
//   - A planned change is a write of the root's own: it stops first, and then names the
//     successor. The successor acts after a renewal of its own.
//   - Each appointment has a term of its own. A root whose lease ran out, and which then
//     finds that the record still names it, writes the next term.
//   - Every write that begins a term raises the fence ceiling by a block, and the
//     root's first fence is the ceiling before it.
//   - A candidate that does not hear itself over the broker writes nothing.
//
// # Why at most one acts
//
// Let s be the instant at which a root first sent the newest write that it knows to
// be made, and v the version of that write. It acts for less than Lease·(1−ρ) on its
// own clock, which is at most Lease of real time after s. A candidate that takes
// over waits Lease·(1+ρ)/(1−ρ) on its own clock, at least Lease/(1−ρ) of real time,
// after it learnt the version that it replaces. That version is v or a later one, and it
// learnt it after s. The two margins overlap by about ρ·Lease, which is for the step
// from reading a clock to acting on it.
//
// # What is asked of the register
//
// It is linearizable, and a write is made at most once. It may forget renewals, which
// are the only writes that need not be synced, if afterwards either
//
//   - it makes no write until Lease/(1−ρ) of true time after the forgotten one was
//     sent, as voters that restart do: so no candidate takes over too early, and the new
//     root counts its grace from no earlier than a lease before it was appointed; or
//   - the key has a version that it never had before, as it must after the restart of a
//     register that is one process: so candidates wait again from there, except the one at
//     the same place.
package lease
