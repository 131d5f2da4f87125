package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapersAtOnce is how many connections are answered at a time, each one request: who floods
// the metrics must not stop the locks of the same process.
const scrapersAtOnce = 16

// serveMetrics serves /metrics on addr until stop, and returns the real address.
func serveMetrics(ctx context.Context, addr string, registry *prometheus.Registry) (string, func(), error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("--metrics %s: %w: give another address", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{
		Handler:        mux,
		ReadTimeout:    5 * time.Second,
		WriteTimeout:   10 * time.Second,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	server.SetKeepAlivesEnabled(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(&newest{Listener: l, most: scrapersAtOnce})
	}()
	return l.Addr().String(), func() {
		_ = closeWithin(server.Shutdown)
		_ = server.Close()
		<-done
	}, nil
}
