//go:build linux

package clients

import (
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/tests/address"
	"padme/tests/parallel"
	"padme/tests/poll"
	"padme/tests/process"
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
	dir, remove := process.Build("padme/cmd/pubsub-node")
	state.In(dir)
	bin = filepath.Join(dir, "pubsub-node")
	parallel.Tests(2)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

// start runs a program until the end of the test, at the latest.
func start(t *testing.T, name, dir string, env []string, argv ...string) *process.Process {
	t.Helper()
	return process.Start(t, process.Options{Name: name, Dir: dir, Env: env, Group: true}, argv...)
}

// site is a broker with what runs around it.
type site struct {
	*testing.T
	dir    string // with the examples
	url    string
	addr   string
	broker *process.Process
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
	s.broker = start(s.T, "mosquitto", s.dir, nil, process.Need(s.T, "apt-get install mosquitto", "mosquitto"), "-c", path)
}

// gateway runs `pubsub-node serve`, for crane unless others are named.
func (s *site) gateway(id string, locks ...string) *process.Process {
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
func (s *site) client(id string, command []string, args ...any) *process.Process {
	s.Helper()
	host, port, _ := strings.Cut(s.addr, ":")
	argv := append([]string{}, command...)
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	return start(s.T, id, s.dir, []string{"CLIENT=" + id, "MQTT_HOST=" + host, "MQTT_PORT=" + port, "PADME_BROKER=" + s.url}, argv...)
}
