package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"padme/internal/throttle"
)

// listen opens a TCP listener, or returns nil for an empty address.
func listen(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w on %q: %w", ErrListen, address, err)
	}
	return l, nil
}

func (b *Broker) serveListeners() {
	if b.tcp != nil {
		b.work.Go(func() { b.whenOpen(b.tcp, b.acceptTCP) })
	}
	if b.ws != nil {
		b.work.Go(func() { b.whenOpen(b.ws, b.acceptWebSocket) })
	}
}

// whenOpen has a listener served once Config.Wait lets it, or closes it at the broker's end.
func (b *Broker) whenOpen(l net.Listener, serve func()) {
	if b.cfg.Wait != nil {
		select {
		case <-b.cfg.Wait:
		case <-b.stop:
			_ = l.Close()
			return
		}
	}
	serve()
}

func (b *Broker) closeListeners() {
	for _, l := range []net.Listener{b.tcp, b.ws} {
		if l != nil {
			_ = l.Close()
		}
	}
}

func (b *Broker) acceptTCP() {
	b.acceptAll(b.tcp, "tcp", b.cfg.TLS, func(c net.Conn) net.Conn { return c })
}

func (b *Broker) acceptWebSocket() {
	conf := b.cfg.TLS
	if conf != nil {
		conf = conf.Clone()
		conf.NextProtos = []string{"http/1.1"}
	}
	b.acceptAll(b.ws, "websocket", conf, func(c net.Conn) net.Conn { return &webSocketConn{Conn: c} })
}

// acceptAll admits what comes to a listener, with TLS if conf is not nil, as what speaking makes of it.
func (b *Broker) acceptAll(l net.Listener, name string, conf *tls.Config, speaking func(net.Conn) net.Conn) {
	accept(l, b.stop, func(raw net.Conn) {
		raw = b.door.admit(raw)
		if conf != nil {
			raw = tls.Server(raw, conf) // its handshake happens later, under the CONNECT's deadline
		}
		_ = b.admit(speaking(raw), name) // it closes what it refuses
	}, func(err error) { b.log.Error("accept", "listener", name, "error", err) })
}

// accept hands connections on until the listener is closed. Any other error,
// such as too many open files, passes: it waits a little and goes on. It tells
// of one once a minute. After each connection others run: a thousand that wait to be accepted
// would be a thousand goroutines that run before whoever is inside.
func accept(l net.Listener, stop <-chan struct{}, admit func(net.Conn), failed func(error)) {
	var told throttle.Log[string]
	for {
		raw, err := l.Accept()
		if err == nil {
			admit(raw)
			runtime.Gosched()
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if told.May("accept", time.Now()) {
			failed(err)
		}
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
