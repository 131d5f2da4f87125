package main

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheOldestMakesRoom(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	var full []net.Conn
	l := &newest{Listener: inner, most: 2, full: func(c net.Conn, busiest string) {
		if full = append(full, c); busiest != "127.0.0.1" {
			t.Errorf("most are of %q", busiest)
		}
	}}
	var theirs, ours [4]net.Conn
	come := func(i int) {
		t.Helper()
		if theirs[i], err = net.Dial("tcp", inner.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if ours[i], err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	come(0)
	come(1)
	_ = ours[1].Close() // whoever leaves makes room as well
	come(2)
	come(3)
	for i, open := range []bool{false, false, true, true} {
		if _, err := ours[i].Write([]byte("x")); (err == nil) != open {
			t.Errorf("connection %d: %v", i, err)
		}
		_ = theirs[i].Close()
		_ = ours[i].Close()
	}
	if len(full) != 1 || full[0].RemoteAddr().String() != theirs[0].LocalAddr().String() {
		t.Errorf("%d made room", len(full))
	}
	if len(l.kept) != 0 {
		t.Errorf("%d are kept", len(l.kept))
	}
	_ = inner.Close()
	if _, err := l.Accept(); err == nil {
		t.Error("accepted after the end")
	}
}

// fromAt is a connection from an address.
type fromAt struct {
	net.Conn
	from string
}

func (c fromAt) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 40_000}
}

// Once a minute a line says which limit it is, what it is, who has most and what was closed.
func TestFullMetricsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		registry := prometheus.NewRegistry()
		f := &metricsFlags{clients: 3}
		full := f.tellFull(registry, slog.New(slog.NewTextHandler(&log, nil)))
		l := &newest{most: f.clients}
		for _, from := range []string{"192.0.2.1", "192.0.2.9", "192.0.2.9", "192.0.2.9"} {
			l.kept = append(l.kept, &kept{Conn: fromAt{from: from}, of: l})
		}
		for i, want := range []int{1, 1, 2} {
			if i == 2 {
				time.Sleep(time.Minute)
			}
			full(l.kept[0], l.busiest())
			line := `msg="limit reached" limit=max-metrics-clients most=3 "most are of"=192.0.2.9 "closed the oldest, of"=192.0.2.1 remedy="keep strangers`
			if n := strings.Count(log.String(), line); n != want {
				t.Errorf("round %d: %d lines, not %d: %s", i, n, want, &log)
			}
		}
		if families, err := registry.Gather(); err != nil || families[0].Metric[0].GetCounter().GetValue() != 3 {
			t.Errorf("%v, %v", families, err)
		}
	})
}
