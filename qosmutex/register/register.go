package register

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
	"unicode/utf8"
)

// Limits of every implementation.
const (
	MaxKey   = 512      // bytes of a key, which is not empty and UTF-8
	MaxValue = 64 << 10 // bytes of a value
)

// Register is a linearizable compare-and-set by key. Its methods may be called
// concurrently. They return soon after the context ends; a context without an end
// waits for as long as the register has no majority.
type Register interface {
	// Get returns the current value and version of a key. For a key that was never
	// written, Version.Counter is 0, Value is nil, and Version.Domain is set: such a
	// version is what the first write of the key replaces. The error is an
	// [*Unavailable] or wraps ErrInvalid. The caller owns the value.
	Get(ctx context.Context, key string) (Entry, error)

	// CompareAndSet makes each write whose Old is the current version of its key.
	// Result i belongs to write i. The writes share messages and disk syncs but
	// succeed or fail one by one; two of the same key are made in the order given. The
	// values must not change until it returns.
	CompareAndSet(ctx context.Context, writes ...Write) []Result

	// Age returns for how long the register is known to have been there, in its present
	// domain; 0: it is not known yet. A key that was never written here may have been
	// in another register that this one replaces: one in the memory of a process that
	// ended, or in a file that was deleted. What rests on such a key is over once the
	// register is older than it lasts.
	Age() time.Duration
}

// Domain identifies the history that a version belongs to. It is drawn at random when
// a register is set up, and again when an operator resets it.
type Domain [16]byte

// NewDomain draws a domain.
func NewDomain() Domain {
	var d Domain
	_, _ = rand.Read(d[:]) // never fails
	return d
}

// String returns the domain in hexadecimal.
func (d Domain) String() string { return hex.EncodeToString(d[:]) }

// Version identifies one write of a key. Versions are compared with ==.
type Version struct {
	Domain  Domain
	Counter uint64 // 1 for the first write of a key and one more for each after it; 0: never written
	Nonce   uint64 // of the write; random, so that no other write has this version
}

// String returns the counter and, if there was a write, its nonce.
func (v Version) String() string {
	if v.Counter == 0 {
		return "none"
	}
	return fmt.Sprintf("%d-%016x", v.Counter, v.Nonce)
}

// Next returns the version that a write with this nonce has if it replaces v.
func (v Version) Next(domain Domain, nonce uint64) Version {
	return Version{Domain: domain, Counter: v.Counter + 1, Nonce: nonce}
}

// Entry is what a key holds.
type Entry struct {
	Value   []byte
	Version Version
}

// Write is one compare-and-set.
type Write struct {
	Key   string
	Old   Version // what must be current; a Counter of 0 without a Domain means: never written in any domain
	Value []byte

	// Nonce becomes part of the new version. A write that is repeated with the same
	// nonce is made at most once, and succeeds if it is the current one. 0 has one
	// drawn.
	Nonce uint64

	// Renewal is above 0 for a write that only shows that its writer lives and leaves
	// the meaning of the value as it is: it says for how long after sending it the
	// writer relies on it. Such a write need not be synced to disk. It may be
	// forgotten: by a register that is one process, only together with that process;
	// by voters, not before that time has passed. A forgotten renewal leaves the
	// version that it replaced.
	Renewal time.Duration
}

// Result is the outcome of one write.
type Result struct {
	Version Version // of the write if Err is nil
	Err     error
}

// NewNonce draws the nonce of a write. It is never 0.
func NewNonce() uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// Replaces reports whether w may replace what has version current: w.Old is current,
// or neither was ever written and w names no other domain.
func (w *Write) Replaces(current Version) bool {
	if w.Old.Counter == 0 && current.Counter == 0 {
		return w.Old.Domain == current.Domain || w.Old.Domain == Domain{}
	}
	return w.Old == current
}

// Made reports whether current is the version that w has made: it is a repetition of
// a write that succeeded.
func (w *Write) Made(current Version) bool {
	return current.Counter == w.Old.Counter+1 && current.Nonce == w.Nonce && w.Nonce != 0 &&
		(w.Old.Domain == current.Domain || w.Old.Domain == Domain{})
}

// Check reports what is wrong with a write, as an error that wraps ErrInvalid.
func (w *Write) Check() error {
	if err := CheckKey(w.Key); err != nil {
		return err
	}
	if len(w.Value) > MaxValue {
		return fmt.Errorf("%w: the value of %q has %d bytes, at most %d are allowed", ErrInvalid, w.Key, len(w.Value), MaxValue)
	}
	if w.Renewal < 0 {
		return fmt.Errorf("%w: the renewal of %q is good for %v", ErrInvalid, w.Key, w.Renewal)
	}
	return nil
}

// CheckKey reports what is wrong with a key, as an error that wraps ErrInvalid.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: the key is empty", ErrInvalid)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: the key %.20q… has %d bytes, at most %d are allowed", ErrInvalid, key, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: the key %q is not UTF-8", ErrInvalid, key)
	}
	return nil
}
