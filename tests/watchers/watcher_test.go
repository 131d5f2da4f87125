//go:build unix

package watchers

import (
	"bufio"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// watcher is a process that subscribes to every lock topic at QoS 1.
type watcher struct {
	*exec.Cmd
	lines chan string // of its standard output; closed at its end
}

// watchers returns how to start each kind of watcher there is here: one with our
// own library and, where it is installed, mosquitto_sub.
func watchers(t *testing.T) map[string]func(t *testing.T, broker, filter string) *watcher {
	kinds := map[string]func(*testing.T, string, string) *watcher{
		"pubsub": func(t *testing.T, broker, _ string) *watcher {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), watchEnv+"="+broker)
			return start(t, cmd)
		},
	}
	if path := mosquitto(t); path != "" {
		kinds["mosquitto_sub"] = func(t *testing.T, broker, filter string) *watcher {
			return start(t, mosquittoCommand(t, path, broker, filter))
		}
	}
	return kinds
}

// mosquitto returns the path of mosquitto_sub or "". Continuous integration must
// have it.
func mosquitto(t *testing.T) string {
	path, err := exec.LookPath("mosquitto_sub")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("mosquitto_sub is not installed: apt-get install mosquitto-clients")
	}
	return path
}

func mosquittoCommand(t *testing.T, path, broker, filter string) *exec.Cmd {
	u, err := url.Parse(broker)
	if err != nil {
		t.Fatal(err)
	}
	return exec.Command(path, "-h", u.Hostname(), "-p", u.Port(), "-q", "1", "-v", "-t", filter)
}

func start(t *testing.T, cmd *exec.Cmd) *watcher {
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &watcher{cmd, make(chan string, 1024)}
	go func() {
		defer close(w.lines)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			select {
			case w.lines <- lines.Text():
			default: // nobody reads them any more
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range w.lines {
		}
		_ = cmd.Wait()
	})
	return w
}

// awaitLine waits until the watcher has printed anything, so that it is known to
// be subscribed.
func (w *watcher) awaitLine(t *testing.T) {
	t.Helper()
	select {
	case _, ok := <-w.lines:
		if !ok {
			t.Fatal("the watcher ended")
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the watcher saw nothing")
	}
}

func (w *watcher) stop(t *testing.T) {
	t.Helper()
	if err := w.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}
