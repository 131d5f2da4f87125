package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"padme/internal/throttle"
	"padme/qosmutex/gateway"
)

// metricsFlags are the flags of the verbs that serve Prometheus metrics.
type metricsFlags struct {
	address string
	clients int // that are answered at a time, one request each
	named   int // locks that have metrics under their names

	given func(flag string) bool
}

func (f *metricsFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.address, "metrics", "", "`address` that serves Prometheus metrics at /metrics (default: none)")
	fs.IntVar(&f.clients, "max-metrics-clients", 16, "connections at a time to --metrics; the oldest makes room")
	fs.IntVar(&f.named, "max-metrics-locks", 100, "`number` of locks with metrics under their names; those of the others are added up")
	f.given = fs.Changed
}

func (f *metricsFlags) check() error {
	switch {
	case f.clients < 1:
		return usageError("--max-metrics-clients %d: choose at least 1, or leave it out", f.clients)
	case f.named < 2:
		return usageError("--max-metrics-locks %d: choose at least 2, as the lock %q of gateways among themselves is one, or leave it out", f.named, gateway.RoleTopic)
	}
	for _, flag := range []string{"max-metrics-clients", "max-metrics-locks"} {
		if f.address == "" && f.given(flag) {
			return usageError("--%s is about --metrics, which is not given", flag)
		}
	}
	return checkAddress("metrics", f.address)
}

// metricsOfProcess has those of the Go runtime and of the process.
func metricsOfProcess() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

// serve serves /metrics until stop, and puts the real address in the place of the given one.
// Who floods the metrics must not stop the locks of the same process.
func (f *metricsFlags) serve(ctx context.Context, registry *prometheus.Registry, log *slog.Logger) (stop func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", f.address)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w: give another address", f.address, err)
	}
	f.address = l.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", shared(promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	server := &http.Server{
		Handler:        mux,
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   10 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false)
	listener := &newest{Listener: l, most: f.clients, full: f.tellFull(registry, log)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() {
		_ = closeWithin(server.Shutdown)
		_ = server.Close()
		<-done
	}, nil
}

// tellFull counts connections that make room, and once a minute says in the log that the oldest one
// has, and which address has most of those that stay: it may be the one that floods.
func (f *metricsFlags) tellFull(registry *prometheus.Registry, log *slog.Logger) func(oldest net.Conn, busiest string) {
	closed := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "padme_metrics_limited_total",
		Help: "Connections to the metrics that made room for others (--max-metrics-clients).",
	})
	registry.MustRegister(closed)
	var told throttle.Log[string]
	return func(oldest net.Conn, busiest string) {
		closed.Inc()
		if told.May("full", time.Now()) {
			log.Warn("limit reached", "limit", "max-metrics-clients", "most", f.clients, "most are of", busiest, "closed the oldest, of", hostOf(oldest),
				"remedy", "keep strangers from --metrics by a firewall, or by an address of this machine, or raise --max-metrics-clients")
		}
	}
}
