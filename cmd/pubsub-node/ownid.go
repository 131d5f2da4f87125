package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
)

// ownID is the participant of a process that has no other name: host-pid, as people
// know processes. Containers have host names in common, and process numbers too, so
// there a random end keeps them apart. It is the same for as long as the process runs.
var ownID = sync.OnceValue(func() string { return idOf(hostName(), os.Getpid(), numbersRepeat()) })

func idOf(host string, pid int, repeats bool) string {
	id := fmt.Sprintf("%s-%d", host, pid)
	if repeats {
		const letters = 6 // 30 bits: of a thousand processes of one number two are alike once in 2000 starts
		id += "-" + strings.ToLower(rand.Text()[:letters])
	}
	return id
}

// numbersRepeat reports whether other processes may be known by the same number on a
// machine of the same name.
func numbersRepeat() bool {
	const first = "pid:[4026531836]" // the kernel's number of the machine's own PID namespace
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return os.Getpid() == 1 || err == nil && namespace != first
}
