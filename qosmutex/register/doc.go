// Package register is a linearizable, versioned compare-and-set by key. It knows no
// clock, no lease and no lock: package qosmutex keeps the record of each lock topic in
// a [Register], one key each, and what the record says decides who may grant.
//
// # Implementations
//
// They are packages of their own, chosen by configuration, and all of them pass the
// suite of package registertest.
//
//	local   one process and one file, or memory alone
//	quorum  one, three or five voters that agree by CASPaxos
//	etcd    an etcd cluster
//
// # Versions
//
// Each write gives its key a new [Version]. A write names the version that it
// replaces, so that of several writers exactly one succeeds, and the others are told
// what they lost to. Versions are never reused: their nonce is random. Keys are never
// deleted.
//
// # What an error says about a write
//
//	nil             the write was made, and its version is returned
//	ErrConflict     the key has another version; the error is a [*Conflict] and carries it
//	ErrUnavailable  the register did not answer in time; the error is an [*Unavailable]
//	                and names the voters that are missing
//	ErrUnknown      with one of the two above: the write may have been made all the
//	                same, or may still be made
//	ErrInvalid      the write breaks a limit of this package, and was not tried
//
// An error that is not ErrUnknown says that the call has not made the write. To settle an
// unknown outcome, repeat the same [Write] with the same Nonce, or read the key: it
// is the write's own if its version carries the write's nonce.
package register
