//go:build linux

package clients

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/tests/address"
	"padme/tests/parallel"
	"padme/tests/poll"
	"padme/tests/state"
)

// patience bounds every waiting for processes, on a machine that is busy.
const patience = 60 * time.Second

// bin is pubsub-node.
var bin string

// TestMain builds the command.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() { // every test that needs the program is skipped
		goleak.VerifyTestMain(m)
	}
	dir, err := os.MkdirTemp("", "clients")
	if err != nil {
		panic(err)
	}
	state.In(dir)
	bin = filepath.Join(dir, "pubsub-node")
	if text, err := exec.Command("go", "build", "-o", bin, "padme/cmd/pubsub-node").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, text)
		os.Exit(1)
	}
	parallel.Tests(2)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// process is one that the test started.
type process struct {
	*exec.Cmd
	name string
	done chan struct{} // closed when it is gone

	mu   sync.Mutex
	text bytes.Buffer // what it printed
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// printed is what it has printed until now.
func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// start runs a program until the end of the test, at the latest.
func start(t *testing.T, name, dir string, env []string, argv ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(argv[0], argv[1:]...), name: name, done: make(chan struct{})}
	p.Dir, p.Env = dir, append(os.Environ(), env...)
	p.Stdout, p.Stderr = p, p
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what it starts ends with it
	p.WaitDelay = time.Second
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, p.printed())
		}
	})
	return p
}

// kill ends the process and what it started, as kill -9 does.
func (p *process) kill() {
	_ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// await waits for the process to end well.
func (p *process) await(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		if !p.ProcessState.Success() {
			t.Fatalf("%s: %v: %s", p.name, p.ProcessState, p.printed())
		}
	case <-time.After(patience):
		t.Fatalf("%s did not end: %s", p.name, p.printed())
	}
}

// site is a broker with what runs around it.
type site struct {
	*testing.T
	dir    string // with the examples
	url    string
	addr   string
	broker *process
}

// onSites runs a test with each kind of broker.
func onSites(t *testing.T, f func(s *site)) {
	t.Parallel()
	for name, broker := range map[string]func(*site){"embedded": (*site).embedded, "mosquitto": (*site).mosquitto} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site{T: t, dir: examples(t), addr: address.Free(t)}
			s.url = "mqtt://" + s.addr
			broker(s)
			poll.Within(t, patience, "the broker serves", func() bool {
				conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", s.addr)
				if err == nil {
					_ = conn.Close()
				}
				return err == nil
			})
			f(s)
		})
	}
}

func (s *site) embedded() {
	s.broker = start(s.T, "broker", s.dir, nil, bin, "broker", "--listen", s.addr, "--timing", "lan", "--memory")
}

func (s *site) mosquitto() {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.Fatal(err)
	}
	path := filepath.Join(s.dir, "mosquitto.conf")
	text := fmt.Sprintf("listener %s %s\nallow_anonymous true\nset_tcp_nodelay true\nuser root\n", port, host)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	s.broker = start(s.T, "mosquitto", s.dir, nil, need(s.T, "apt-get install mosquitto", "mosquitto"), "-c", path)
}

// gateway runs `pubsub-node serve`, for crane unless others are named.
func (s *site) gateway(id string, locks ...string) *process {
	s.Helper()
	ready := filepath.Join(s.T.TempDir(), "ready")
	if locks == nil {
		locks = []string{"crane"}
	}
	p := start(s.T, id, s.dir, nil, append([]string{bin, "serve", "--broker", s.url, "--id", id, "--ready-file", ready}, locks...)...)
	poll.Within(s.T, patience, id+" hears clients", func() bool { return exists(ready) })
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// client runs an example.
func (s *site) client(id string, command []string, args ...any) *process {
	s.Helper()
	host, port, _ := strings.Cut(s.addr, ":")
	argv := append([]string{}, command...)
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	return start(s.T, id, s.dir, []string{"CLIENT=" + id, "MQTT_HOST=" + host, "MQTT_PORT=" + port, "PADME_BROKER=" + s.url}, argv...)
}

// need returns the path of a program. Continuous integration must have it.
func need(t *testing.T, remedy string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, names[0], remedy)
	return ""
}

func missing(t *testing.T, what, remedy string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed: %s", what, remedy)
	}
	t.Skipf("%s is not installed: %s", what, remedy)
}
