package quorum

import (
	"fmt"
	"time"

	"padme/qosmutex/register/caspaxos"
)

// look recreates the file if it was removed, and says what to do if that would not be safe.
func (v *Voter) look(m *caspaxos.Machine) {
	recreated, err := v.disk.Look(m.Records)
	v.mu.Lock()
	was := v.vanished
	v.vanished = err
	v.mu.Unlock()
	switch {
	case err != nil && v.told.May("vanished", time.Now()):
		v.log.Error("this voter loses its vote when it ends: its file has vanished", "error", err, "otherwise", v.otherwise())
	case err != nil:
	case recreated:
		v.log.Warn("the file of this voter was removed: it has been recreated", "file", v.opts.File)
	case was != nil:
		v.log.Warn("the file of this voter is at its path again", "file", v.opts.File)
	}
}

// otherwise is what to do where the file cannot be brought back.
func (v *Voter) otherwise() string {
	return fmt.Sprintf("as long as a majority votes, have another one take its place with \"pubsub-node voters replace %s NEW\"", v.opts.Self)
}

// Vanished says that the file of the voter is not at its path any more, and what to do; nil: it is.
func (v *Voter) Vanished() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.vanished
}
