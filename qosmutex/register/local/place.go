package local

import (
	"os"
	"path/filepath"
	"strings"
)

// bootID is a file with another content each time the machine starts, in Linux.
const bootID = "/proc/sys/kernel/random/boot_id"

// placeOf names the file at path on this run of this machine; empty if either cannot be
// told from others.
func placeOf(path string) string {
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return ""
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + ":" + full
}
