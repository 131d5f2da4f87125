//go:build linux

package faults

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// counter is a number in a file, of fixed width so that a write is one call that
// kill -9 cannot tear.
type counter struct{ path string }

func (c *counter) read() (int, error) {
	text, err := os.ReadFile(c.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimLeft(string(text[:len(text)-1]), " "))
}

func (c *counter) write(n int) error {
	f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%20d\n", n)
	return errors.Join(err, f.Close())
}
