package lease

import (
	"encoding/binary"
	"fmt"

	"padme/qosmutex/protocol"
)

// Version identifies one write of a record, as the register does.
type Version struct {
	Domain  [16]byte // of the register; another one is another history
	Counter uint64   // one more than that of the version replaced; 0: never written
	Nonce   uint64   // of the write; no other write has it
}

// String returns the counter and, if there was a write, its nonce.
func (v Version) String() string {
	if v.Counter == 0 {
		return "none"
	}
	return fmt.Sprintf("%d-%x", v.Counter, v.Nonce)
}

// Register is the short form of the domain, by which messages tell one register from
// another. It is never 0.
func (v Version) Register() uint64 {
	return max(binary.BigEndian.Uint64(v.Domain[:]), 1)
}

// after reports whether v may be newer than o: it is another one, and not lower. Two
// versions have the same counter when the register forgot a renewal.
func (v Version) after(o Version) bool {
	return v != o && v.Domain == o.Domain && v.Counter >= o.Counter
}

// Entry is what the register has.
type Entry struct {
	Version Version
	Record  protocol.Record // zero if Version.Counter is 0
}

// Write is one compare-and-set.
type Write struct {
	Old    Version         // what must be current
	Record protocol.Record // the value
	Nonce  uint64          // of the new version; a retry has the same
	// Renewal: the record says what that of Old says, and the write only shows that
	// the root lives. It need not be synced to disk; see package register.
	Renewal bool
}

// made reports whether v is the version that w makes.
func (w *Write) made(v Version) bool {
	return v.Counter == w.Old.Counter+1 && v.Nonce == w.Nonce && v.Domain == w.Old.Domain
}
