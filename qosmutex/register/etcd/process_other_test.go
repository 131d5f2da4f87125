//go:build unix && !linux

package etcd_test

import "syscall"

func endsWithUs() *syscall.SysProcAttr { return nil }
