package broker_test

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"padme/broker"
)

// Signatures are what strangers can have made without an account: as many are at a time as
// passwords are checked, and whoever has left gives its turn back.
func TestHandshakesTakeTurns(t *testing.T) {
	server, client := certificates(t)
	var now, most, signed atomic.Int32
	certificate := server.Certificates[0]
	server.Certificates = nil
	server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		n := now.Add(1)
		for at := most.Load(); n > at && !most.CompareAndSwap(at, n); at = most.Load() {
		}
		time.Sleep(10 * time.Millisecond) // what a signature may take
		now.Add(-1)
		signed.Add(1)
		return &certificate, nil
	}
	b := start(t, broker.Config{TCP: "127.0.0.1:0", WebSocket: "127.0.0.1:0", TLS: server, Limits: broker.Limits{PasswordChecks: 1}})

	// The hello of a client, as it is sent.
	hello := make(chan []byte, 1)
	near, far := net.Pipe()
	go func() {
		buf := make([]byte, 4096)
		n, _ := far.Read(buf)
		hello <- buf[:n]
		_ = far.Close()
	}()
	named := client.Clone()
	named.ServerName = "127.0.0.1"
	if tls.Client(near, named).Handshake() == nil {
		t.Fatal("a handshake with nobody")
	}
	bytes := <-hello
	var all sync.WaitGroup
	for _, addr := range []net.Addr{b.TCPAddr(), b.WebSocketAddr()} {
		for range 10 {
			all.Go(func() { // and leaves
				c, err := net.Dial("tcp", addr.String())
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = c.Write(bytes)
				_ = c.Close()
			})
			all.Go(func() {
				c, err := tls.Dial("tcp", addr.String(), client)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.Close()
			})
		}
	}
	all.Wait()
	c := connect(t, at(b.URL()), trust(client))
	c.publish("t", "x", 1, false)
	if most.Load() != 1 || signed.Load() < 21 {
		t.Errorf("%d signatures, %d of them at a time", signed.Load(), most.Load())
	}
}
