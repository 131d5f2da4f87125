//go:build !unix

package main

import (
	"errors"
	"os"
)

// canSuspend says that processes cannot be stopped and continued here.
const canSuspend = false

func suspend(*os.Process, bool) error { return errors.ErrUnsupported }
