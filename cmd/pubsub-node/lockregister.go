package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"padme/qosmutex/register/journal"
	"padme/qosmutex/register/local"
)

// registerFile is what the register of a lock node is called in its directory.
const registerFile = "locks.register"

// inMemory is said of a register that is kept nowhere.
const inMemory = "memory"

// ownRegister opens the register in which a program keeps who is the root of each lock, so
// that a restart costs no hold: in dir, or, if that is empty, in a directory of this user's
// state that is named after the program.
func ownRegister(dir, program string) (r *local.Register, where string, err error) {
	if dir == "" {
		if dir, err = stateDir(program); err != nil {
			return nil, "", err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "", fmt.Errorf("the directory of the locks: %w: give another one with --data, or --memory", err)
	}
	path := filepath.Join(dir, registerFile)
	if r, err = local.Open(path); err != nil {
		return nil, "", fmt.Errorf("%w%s", err, remedyOfRegister(err, dir))
	}
	return r, path, nil
}

// brokerRegister is the one of a broker. A broker on a port that is free by chance keeps
// nothing, unless dir says where: nobody finds it again after a restart.
func brokerRegister(dir, listen string, memory bool) (r *local.Register, where string, err error) {
	_, port, _ := net.SplitHostPort(listen)
	if memory || dir == "" && port == "0" {
		return local.Memory(), inMemory, nil
	}
	return ownRegister(dir, listen)
}

// keptNoMore is what ends a program whose register cannot be written any more.
func keptNoMore(r *local.Register, where, program string) error {
	return fmt.Errorf("the locks cannot be kept any more: see to the disk of %s, then start the %s again: %w", where, program, r.Err())
}

// remedyOfRegister adds what to do about a file that a broker cannot use.
func remedyOfRegister(err error, dir string) string {
	switch {
	case errors.Is(err, journal.ErrInUse):
		return ": is another broker or gateway running with it? Give another --data directory, or --memory"
	case errors.Is(err, journal.ErrForeign):
		return ": is it of another program, or of a later release? Give another --data directory, or --memory, or start that release"
	case spoiled(err):
		return fmt.Sprintf(": start over with \"pubsub-node voters reset --data %s\"", dir)
	}
	return ": give a --data directory that has room and that this user may write to, or --memory"
}

var errNoHome = errors.New("no home directory to keep the locks in: give a directory with --data, or --memory")

// stateDir is where programs of this user keep what outlives them.
func stateDir(program string) (string, error) {
	base := os.Getenv("STATE_DIRECTORY") // of a systemd service
	if base == "" {
		base = os.Getenv("XDG_STATE_HOME")
	}
	if home, err := os.UserHomeDir(); base == "" && err == nil {
		base = filepath.Join(home, ".local", "state")
	}
	if base == "" {
		return "", errNoHome
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`:/\[]*`, r) {
			return '_'
		}
		return r
	}, program)
	return filepath.Join(base, "padme", name), nil
}
