package ring

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/tests/brokers"
	"padme/tests/extent"
)

var sizes = flag.String("ring", "40", "numbers of participants, separated by commas")

const (
	processes = 4
	patience  = 2 * time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(partEnv) != "" {
		if err := takePart(os.Getenv(partEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// TestRing has rings of participants in four processes find each other, and a sample pass each
// link again after their broker was restarted without a memory, and prints what that cost.
func TestRing(t *testing.T) {
	extent.NotShort(t, "real processes")
	var table strings.Builder
	for _, size := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < processes {
			t.Fatalf("-ring %q: give numbers of at least %d", *sizes, processes)
		}
		measure(t, n, &table)
	}
	t.Logf("\n| participants | | until the last one is there | until all have matched, or a sample has passed, after that | messages in | out | CPU of the broker | of the participants |\n|---|---|---|---|---|---|---|---|\n%s", table.String())
}

// measure adds the rows of one ring.
func measure(t *testing.T, n int, table *strings.Builder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience+30*time.Second)
	defer cancel()
	s := &server{t: t}
	s.start()
	defer func() { s.stop() }()
	began, used := time.Now(), s.cpu()
	parts := launchAll(ctx, t, s.url, n, 0)
	var cpu time.Duration
	row := func(what string, there time.Duration, before time.Duration) {
		in, out := s.messages()
		of := "-"
		if s.figures != nil {
			of = fmt.Sprintf("%.1f s", (s.cpu() - before).Seconds())
		}
		fmt.Fprintf(table, "| %d | %s | %.1f s | %.1f s | %s | %s | %s | %.1f s |\n",
			n, what, there.Seconds(), (time.Since(began) - there).Seconds(), in, out, of, cpu.Seconds())
	}
	_ = everyone(t, parts, "there")
	there := time.Since(began)
	cpu = everyone(t, parts, "matched")
	row("start", there, used)
	s.stop()
	began, used = time.Now(), s.cpu()
	s.start()
	_ = everyone(t, parts, "back")
	there, before := time.Since(began), cpu
	cpu = everyone(t, parts, "matched") - before
	row("restart of the broker", there, used)
	for _, p := range parts {
		p.end(t)
	}
}

// server is the broker: in this process, or mosquitto.
type server struct {
	t       *testing.T
	url     string
	b       *broker.Broker
	figures *prometheus.Registry // nil if its messages cannot be counted
	other   *brokers.Server
}

func (s *server) start() {
	s.t.Helper()
	if brokers.Chosen() != brokers.Embedded {
		s.startOther()
		return
	}
	addr := "127.0.0.1:0"
	if s.url != "" {
		addr = strings.TrimPrefix(s.url, "mqtt://")
	}
	s.figures = prometheus.NewRegistry()
	b, err := broker.Start(s.t.Context(), broker.Config{TCP: addr, Metrics: s.figures, Limits: broker.Limits{Clients: 1 << 16}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.b, s.url = b, b.URL()
}

func (s *server) startOther() {
	s.t.Helper()
	var err error
	if s.other == nil {
		if s.other, err = brokers.Start(s.t.Context(), brokers.Chosen(), s.t.TempDir()); err == nil {
			s.t.Cleanup(s.other.Stop)
			s.url = s.other.URL()
		}
	} else if err = s.other.Restart(0); err == nil {
		err = s.other.Await(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) stop() {
	if s.other != nil {
		s.other.Kill(0)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.b.Close(ctx); err != nil {
		s.t.Errorf("closing the broker: %v", err)
	}
}

// messages returns how many came and how many went out since the start.
func (s *server) messages() (in, out string) {
	if s.figures == nil {
		return "-", "-"
	}
	families, err := s.figures.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	figure := map[string]string{}
	for _, f := range families {
		if f.GetMetric()[0].GetCounter() != nil {
			figure[f.GetName()] = strconv.Itoa(int(f.GetMetric()[0].GetCounter().GetValue()))
		}
	}
	return figure["padme_broker_messages_received_total"], figure["padme_broker_messages_sent_total"]
}

// cpu is what this process has used, of which all but a little is the broker's.
func (s *server) cpu() time.Duration { return used() }

func used() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
