package etcd_test

import "syscall"

// endsWithUs has a process end when the test does, however that ends.
func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
