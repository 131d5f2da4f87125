package brokers_test

import (
	"errors"
	"flag"
	"net"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"padme/tests/brokers"
	"padme/tests/extent"
	"padme/tests/parallel"
)

var all = flag.Bool("all", false, "kill each server of the NATS cluster in turn, and the other brokers twice")

func TestMain(m *testing.M) {
	parallel.Tests(2)
	goleak.VerifyTestMain(m, goleak.Cleanup(os.Exit))
}

// Four members contend for a resource over a broker of each kind, and an observer
// looks on.
func TestLocksOverTheEmbeddedBroker(t *testing.T) {
	extent.NotShort(t, "real time")
	url := brokers.UseEmbedded(t).URL()
	w := newWorkload(t, func(int) string { return url })
	w.served(t, "on the embedded broker")
	w.end(t)
}

// A broker is killed -9 while locks change hands and comes back with what it had
// written. Of a cluster one server is killed: who was connected to it goes on at
// another while it is dead.
func TestLocksOutliveABrokerThatIsKilled(t *testing.T) {
	extent.NotShort(t, "real processes")
	for _, kind := range []brokers.Kind{brokers.Mosquitto, brokers.RabbitMQ, brokers.NATS} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := start(t, kind)
			w := newWorkload(t, func(i int) string { return startingAt(s, i) })
			w.served(t, "before a server is killed")
			for _, victim := range victims(s) {
				kill(t, s, victim)
				if s.Nodes() > 1 {
					w.served(t, "while it is dead")
				}
				if err := s.Restart(victim); err != nil {
					t.Fatal(err)
				}
				if err := s.Await(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.served(t, "after it came back")
			}
			w.end(t)
		})
	}
}

// start runs a broker until the test ends. Continuous integration must have it.
func start(t *testing.T, kind brokers.Kind) *brokers.Server {
	t.Helper()
	s, err := brokers.Start(t.Context(), kind, t.TempDir())
	if errors.Is(err, brokers.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// startingAt lists all servers, so that each member begins at another one.
func startingAt(s *brokers.Server, i int) string {
	var urls []string
	for k := range s.Nodes() {
		urls = append(urls, s.NodeURL((i+k)%s.Nodes()))
	}
	return strings.Join(urls, ",")
}

// victims are the servers to kill, one after the other.
func victims(s *brokers.Server) []int {
	switch {
	case !*all:
		return []int{0} // which the root of the lock is connected to
	case s.Nodes() > 1:
		return []int{0, 1, 2}
	}
	return []int{0, 0}
}

func kill(t *testing.T, s *brokers.Server, victim int) {
	t.Helper()
	s.Kill(victim)
	t.Logf("server %d of %d was killed", victim+1, s.Nodes())
	if conn, err := net.Dial("tcp", strings.TrimPrefix(s.NodeURL(victim), "mqtt://")); err == nil {
		_ = conn.Close()
		t.Fatal("it serves after it was killed")
	}
}
