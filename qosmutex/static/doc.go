// Package static is what the algorithms of the literature share in this module:
// participants that know each other beforehand, one core of the algorithm for each
// resource, and around it everything that an algorithm should not have to care
// for: the application's calls, several of them at one participant, withdrawal, a
// Lamport clock, addresses, the snapshot for people.
//
// A Machine made here is a [protocol.Machine]. It assumes channels that lose,
// double and reorder nothing; [OverLossyChannels] gives it those on any network. It
// survives no crash: who needs the one that crashed waits for ever. That is the
// algorithms' own assumption; PADME is the one here that does without it.
package static
