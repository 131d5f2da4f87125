package brokers

import "syscall"

// endsWithUs has a broker killed when the test process dies, by whatever means.
func endsWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
