//go:build !linux

package brokers

import "syscall"

// endsWithUs cannot be asked of other systems: a test process that is killed
// leaves its brokers behind.
func endsWithUs() *syscall.SysProcAttr { return nil }
