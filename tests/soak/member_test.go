//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"padme/pubsub"
	"padme/qosmutex"
)

// Environment of the test binary as a member of a lock topic, for as long as it
// lives: what an application with the library is, and pubsub-node is not.
const (
	memberEnv = "PADME_SOAK_MEMBER" // URL of its broker
	portEnv   = "PADME_SOAK_PORT"   // file that gets the address of its metrics
	leakEnv   = "PADME_SOAK_LEAK"   // makes it leak with each hold: goroutines, files or memory
)

const memberTopic = "shared"

func TestMain(m *testing.M) {
	if url := os.Getenv(memberEnv); url != "" {
		if err := member(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func member(url string) error {
	ctx := context.Background()
	if err := tellMetrics(os.Getenv(portEnv)); err != nil {
		return err
	}
	var p *pubsub.Participant
	for {
		var err error
		p, err = pubsub.Join(ctx, url, fmt.Sprintf("member-%d", os.Getpid()))
		if err == nil {
			break
		}
		if !errors.Is(err, pubsub.ErrUnreachable) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	topic, err := qosmutex.Open(ctx, p, memberTopic, qosmutex.WithTiming(qosmutex.Local()))
	for ctx.Err() == nil && errors.Is(err, qosmutex.ErrNoRoot) {
		topic, err = qosmutex.Open(ctx, p, memberTopic, qosmutex.WithTiming(qosmutex.Local()))
	}
	if err != nil {
		return err
	}
	for {
		hold, err := topic.Lock(ctx, "resource")
		if err != nil {
			return err
		}
		leak(os.Getenv(leakEnv))
		time.Sleep(5 * time.Millisecond)
		_ = hold.Unlock() // it may have been lost
		time.Sleep(20 * time.Millisecond)
	}
}

// tellMetrics serves metrics and writes where into a file.
func tellMetrics(file string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	go http.Serve(l, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if err := os.WriteFile(file+".new", []byte("http://"+l.Addr().String()), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

var kept [][]byte

// leak keeps something for ever, on purpose.
func leak(what string) {
	switch what {
	case "goroutines":
		go func() { select {} }()
	case "files":
		f, err := os.Open(os.DevNull)
		if err == nil {
			files = append(files, f)
		}
	case "memory":
		b := make([]byte, 256<<10)
		for i := range b {
			b[i] = byte(i) // else the pages are not there
		}
		kept = append(kept, b)
	}
}

var files []*os.File // not collected, or they would be closed
