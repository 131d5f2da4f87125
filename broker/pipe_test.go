package broker

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"padme/tests/bubble"
)

func TestPipeCarriesEverythingInOrder(t *testing.T) {
	client, server := newPipe()
	sent := make([]byte, 10*pipeBuffer+7)
	for i := range sent {
		sent[i] = byte(i * 7 / 5)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for rest, n := sent, 1; len(rest) > 0; n = n*3%5000 + 1 {
			w, err := client.Write(rest[:min(n, len(rest))])
			if err != nil {
				t.Error(err)
				return
			}
			rest = rest[w:]
		}
		client.Close()
	})
	got, err := io.ReadAll(server)
	wg.Wait()
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
	}
}

func TestPipeClose(t *testing.T) {
	client, server := newPipe()
	if _, err := client.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	client.Close()
	client.Close()
	if got, err := io.ReadAll(server); string(got) != "last" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read of a closed end: %v", err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write to a closed end: %v", err)
	}
	if _, err := server.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to the other end: %v", err)
	}
}

func TestPipeCloseWakesWhoWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		client, server := newPipe()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := server.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("read: %v", err)
			}
		})
		wg.Go(func() {
			if n, err := server.Write(make([]byte, 2*pipeBuffer)); n != pipeBuffer || !errors.Is(err, net.ErrClosed) {
				t.Errorf("write: %d, %v", n, err)
			}
		})
		synctest.Wait()
		server.Close()
		wg.Wait()
		client.Close()
	})
}

func TestPipeDeadlines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		client, server := newPipe()
		begin := time.Now()
		expect := func(what string, err error, after time.Duration) {
			t.Helper()
			if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != after {
				t.Errorf("%s: %v after %v, want %v", what, err, time.Since(begin), after)
			}
		}
		client.SetDeadline(begin.Add(time.Second))
		_, err := client.Read(make([]byte, 1))
		expect("read", err, time.Second)
		_, err = client.Write(nil)
		expect("write", err, time.Second)

		client.SetReadDeadline(begin.Add(2 * time.Second)) // and later, while the read waits
		time.AfterFunc(500*time.Millisecond, func() { client.SetReadDeadline(begin.Add(5 * time.Second)) })
		_, err = client.Read(make([]byte, 1))
		expect("postponed", err, 5*time.Second)

		client.SetReadDeadline(begin.Add(time.Hour)) // and earlier
		time.AfterFunc(time.Second, func() { client.SetReadDeadline(time.Now()) })
		_, err = client.Read(make([]byte, 1))
		expect("brought forward", err, 6*time.Second)

		client.SetWriteDeadline(begin.Add(8 * time.Second))
		n, err := client.Write(make([]byte, pipeBuffer+1))
		expect("full", err, 8*time.Second)
		if n != pipeBuffer {
			t.Errorf("%d bytes written", n)
		}
		client.SetDeadline(time.Time{})
		server.Read(make([]byte, 1))
		if _, err := client.Write([]byte("x")); err != nil {
			t.Errorf("after the deadline was lifted: %v", err)
		}
		client.Close()
		server.Close()
	})
}
