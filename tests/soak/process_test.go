//go:build linux

package soak

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"padme/tests/process"
)

// begin starts a program. What that starts outlives it when it is killed: under a lock it
// gets TERM from the kernel.
func begin(env []string, argv ...string) (*process.Process, error) {
	return process.Run(process.Options{Env: env, Last: 64 << 10}, argv...)
}

// look samples a process; metrics, if any, is where it tells its goroutines.
func look(pid int, metrics string) (sample, error) {
	s := sample{rss: -1, goroutines: -1, fds: -1}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
			if err != nil {
				return s, err
			}
			s.rss = n << 10
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, err
	}
	s.fds = len(files)
	if metrics != "" {
		s.goroutines, err = goroutines(metrics)
	}
	return s, err
}

// scraper asks on a new connection each time, so that it keeps nothing open at
// what it watches.
var scraper = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func goroutines(url string) (int, error) {
	answer, err := scraper.Get(url)
	if err != nil {
		return -1, err
	}
	defer answer.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(answer.Body); err != nil {
		return -1, err
	}
	for line := range strings.Lines(body.String()) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return -1, fmt.Errorf("no go_goroutines at %s", url)
}
