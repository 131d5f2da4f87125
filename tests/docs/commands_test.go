//go:build linux

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"padme/tests/extent"
	"padme/tests/process"
)

// follow does what a page tells, and expects what it says.
func (d *desk) follow(all []step) {
	d.Helper()
	for i := range all {
		s := &all[i]
		switch s.do {
		case "run":
			for _, name := range s.where {
				t := d.typed(s, name)
				d.ended(s, t)
				if line := t.failed(); line != "" {
					d.Fatalf("%v: failed: %s. The terminal shows:\n%s", s, line, t.since())
				}
			}
		case "start":
			for _, name := range s.where {
				d.typed(s, name)
			}
		case "prints", "awaits":
			for _, name := range s.where {
				t := d.terminal(name)
				d.until(s, t, "it has printed what the page says", func() bool { return matches(t.since(), s.block) })
			}
		case "interrupt":
			t := d.terminal(s.where[0])
			if _, err := t.keys.WriteString("\x03"); err != nil {
				d.Fatal(err)
			}
			d.ended(s, t)
		}
		d.Logf("%v: as it says", s)
	}
}

// environment has the folder for `go install`, a python3 that has paho, and a folder
// for the registers of brokers, which would else be in this user's own.
func environment(t *testing.T) []string {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"python3", "/usr/bin/python3"} { // the first may be one without Debian's packages
		if path, err := exec.LookPath(name); err == nil && exec.Command(path, "-c", "import paho.mqtt.client").Run() == nil {
			if err := os.Symlink(path, filepath.Join(bin, "python3")); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	return []string{"GOBIN=" + bin, "PATH=" + bin + ":" + os.Getenv("PATH"), "XDG_STATE_HOME=" + t.TempDir()}
}

// Every command of the pages, as written.
func TestCommands(t *testing.T) {
	extent.NotShort(t, "real processes")
	t.Parallel()
	for _, page := range []string{"README.md", "clients/python/README.md", "docs/tutorial.md", "docs/choosing.md"} {
		t.Run(page, func(t *testing.T) {
			if page == "docs/choosing.md" {
				extent.Long(t, "a processor for most of a minute, for plans")
			}
			t.Parallel()
			all := stepsOf(t, page)
			env := environment(t)
			text := read(t, page)
			if strings.Contains(text, "mosquitto_pub") {
				process.Need(t, "apt-get install mosquitto-clients", "mosquitto_pub")
			}
			if strings.Contains(text, "python3") {
				if _, err := os.Stat(strings.TrimPrefix(env[0], "GOBIN=") + "/python3"); err != nil {
					process.Missing(t, "python3 with paho", "apt-get install python3-paho-mqtt")
				}
			}
			if strings.Contains(text, "npm ci") {
				process.Need(t, "apt-get install nodejs npm", "node")
				if _, err := os.Stat(root + "/clients/js/node_modules/mqtt"); err != nil {
					process.Missing(t, "the npm package mqtt", "npm ci --prefix clients/js")
				}
			}
			if strings.Contains(text, "nats-server") { // where there is still a network, should it have to be fetched
				build := exec.Command("go", "tool", "-n", "nats-server")
				build.Dir, build.Env = root+"/tests/brokers/nats", append(os.Environ(), "GOFLAGS=")
				if build.Run() != nil {
					process.Missing(t, "nats-server", "go tool nats-server in tests/brokers/nats")
				}
			}
			newDesk(t, env).follow(all)
		})
	}
}

// Code that a page shows is a part of the file that it names.
func TestShownCode(t *testing.T) {
	shown := 0
	for _, page := range pages(t) {
		text := read(t, page)
		if !strings.Contains(text, "<!-- shows ") {
			continue
		}
		all, err := steps(page, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.do != "shows" {
				continue
			}
			shown++
			if source := read(t, s.where[0]); !strings.Contains(source, s.block) {
				t.Errorf("%v: that is not in the file:\n%s", &s, s.block)
			}
		}
	}
	if shown == 0 {
		t.Error("no page shows code of a file")
	}
}
