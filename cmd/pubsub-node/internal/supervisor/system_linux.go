package supervisor

import (
	"bytes"
	"os"
	"slices"
	"syscall"
	"unsafe"
)

const prSetChildSubreaper = 36 // of linux/prctl.h; package syscall lacks it

// adoptOrphans makes this process the parent of what loses its parent below it, in the place
// of process 1.
func adoptOrphans() {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0, 0, 0, 0)
}

// nameProcess gives this process the name that ps and top show. It has 15 characters at most.
func nameProcess() {
	text := [16]byte{}
	copy(text[:15], "lock-supervisor")
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_NAME, uintptr(unsafe.Pointer(&text)), 0, 0, 0, 0)
}

// ownProgram is the file that this process runs, also if another one has taken its name.
func ownProgram() (string, error) {
	const own = "/proc/self/exe"
	if _, err := os.Stat(own); err == nil {
		return own, nil
	}
	return os.Executable()
}

// groupAttributes puts the command in a group of its own. If the supervisor is killed the
// kernel kills the command.
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// descendants are the processes below this one. There are none where /proc is not mounted.
func descendants() []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	children := map[int][]int{}
	for _, name := range names {
		if pid, ok := parseDecimal(name); ok {
			if parent, ok := parentOf(name); ok {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	below := slices.Clone(children[os.Getpid()])
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i]]...)
	}
	return below
}

// parentOf reads the line "pid (name) state parent …", whose name may contain anything.
func parentOf(pid string) (parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, false
	}
	return parseDecimal(fields[1])
}
