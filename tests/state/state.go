// Package state keeps what programs under test remember, of the address that they use, apart from what
// earlier tests left there, and out of the user's home.
package state

import (
	"errors"
	"os"
)

// In has the programs that this process starts keep their state in a directory.
func In(dir string) {
	if err := errors.Join(os.Unsetenv("STATE_DIRECTORY"), os.Setenv("XDG_STATE_HOME", dir)); err != nil {
		panic(err)
	}
}
