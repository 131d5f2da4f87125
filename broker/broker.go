package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/prometheus/client_golang/prometheus"
)

// Config says what a broker listens on and which clients it serves. The zero value is a
// broker without a port, for in-process connections by [Broker.Dial].
type Config struct {
	// TCP is a listen address such as ":1883" or "127.0.0.1:0"; empty means no TCP
	// listener.
	TCP string
	// WebSocket is the same for MQTT over WebSocket, on any path, with the
	// sub-protocol "mqtt".
	WebSocket string
	// TLS, when set, makes both listeners speak TLS (mqtts, wss). It needs a
	// certificate.
	TLS *tls.Config

	// Users, when set, makes name and password mandatory and enforces the table below for
	// publications, subscriptions and wills; what it does not name is denied. P stands for
	// the percent-encoded user name, R for {Prefix}/v1/{domain}. With nil, any client that
	// reaches the listeners may connect and do anything, and the limits for each user have
	// no effect. Use that only on loopback, or on a network where every client is trusted.
	//
	//	R/data/{partition}/{topic}/{key}/P/{writer}  P writes
	//	R/presence/P, R/ask/P                        P writes
	//	R/ep/{topic}/P/{endpoint}                    P writes
	//	R/node/{to}/P                                P writes, {to} reads
	//	R/lock/{topic}/{resource}/state              every member writes
	//	R/lock/{topic}/events, R/lock/{topic}/view   every member writes
	//	R/lock/{topic}/join/P                        P writes
	//	R/lock/{topic}/client/P/…                    P and gateways read and write
	//
	// If a row names no reader, every user may read. See [Role] for observers, gateways,
	// lock clients and administrators. A subscription to a filter such as "#" is granted
	// but delivers only what its user may read. Client ids are private to their user: one
	// user cannot take over another's session.
	//
	// A refused publication is acknowledged like any other (with reason 0x87 in MQTT 5),
	// delivered to no client, logged and counted. In MQTT 3.1.1 the only other answer would
	// be a disconnection, after which a client sends it again forever. A refused
	// subscription is answered 0x80 (in MQTT 5, 0x87 is obscured to 0x80 too). The topic of
	// a will must have P as one of its levels, because only live participants write states,
	// events and views. A connection with another will is refused.
	Users *Users

	// CertificateUsers uses the common name of a client's verified certificate as its user,
	// which must be one of Users. The user's password is then not checked, and a name in
	// CONNECT, if there is one, must be the same. It requires TLS.ClientAuth to verify
	// certificates. A client without a certificate, such as an in-process connection, gives
	// name and password.
	CertificateUsers bool

	// Origins are pages that may always connect over WebSocket, as browsers name them:
	// "https://panel.example:8443". If a password is required, other pages may connect,
	// too. If a certificate replaces the password, only pages of the broker's own host may,
	// because a browser sends the certificate for any page. On loopback without Users, only
	// pages of this machine may.
	Origins []string

	// DataDir, when set, is a directory in which retained messages, sessions, subscriptions
	// and queued messages survive kill -9. It is created if necessary. The operating system
	// flushes it every second, so a power failure may lose the last second. Only one broker
	// at a time may use it. Empty means memory only.
	DataDir string

	// RuntimeDir, when set, is a directory for this broker only, in a file system in memory
	// (a tmpfs, such as /run/padme). It is created if necessary. There the next process
	// finds which clients' passwords were already checked, until the machine is restarted.
	// Without it, all clients wait after a restart until their passwords have been checked,
	// at tens of milliseconds each. Its content makes guessing passwords fast, so it must
	// not be on a disk or be accessible to others.
	RuntimeDir string

	// Wait, when set, makes clients of the listeners wait until it is closed: they are
	// connected, but not answered. [Broker.Dial] does not wait. A program that serves
	// clients in the broker's process closes it once it has subscribed, because anything
	// that a client publishes before that is lost.
	Wait <-chan struct{}

	// Prefix is the first level, or levels, of the topics that the table above protects;
	// default "padme".
	Prefix string

	Limits  Limits                // see Limits for the defaults
	Logger  *slog.Logger          // nil: nothing is logged
	Metrics prometheus.Registerer // nil: no metrics; otherwise padme_broker_*, until Close
}

// Broker is a running MQTT broker. Its methods may be called concurrently.
type Broker struct {
	cfg       Config
	log       *slog.Logger
	server    *mqtt.Server
	access    *access
	flow      *flow
	sessions  *sessions
	hooks     []mqtt.Hook
	store     *store // nil: memory only
	counts    counters
	reached   limitLog
	shares    shares
	door      *door
	guard     *retainGuard
	observers *turns   // of their packets
	clients   *turns   // likewise
	decoders  decoders // of what users send

	tcp, ws net.Listener

	mu      sync.Mutex
	closing bool
	conns   map[*conn]struct{}
	inside  int // of conns, those of clients

	work      sync.WaitGroup // accept loops and connections
	stop      chan struct{}  // closed when closing begins
	done      chan struct{}  // closed when everything has ended
	closeErr  error          // valid after done
	closeOnce sync.Once
}

// Start starts a broker. It returns when the broker is listening and has read its data
// directory. ctx bounds only the start. A port in use, an invalid file or an invalid field
// is an error, and nothing is left running.
func Start(ctx context.Context, cfg Config) (*Broker, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("broker: start: %w", err)
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Broker{
		cfg:       cfg,
		log:       cfg.Logger,
		conns:     map[*conn]struct{}{},
		observers: newTurns(max(1, runtime.GOMAXPROCS(0)/2)),
		clients:   newTurns(max(1, runtime.GOMAXPROCS(0)/2)),
		decoders:  newDecoders(runtime.GOMAXPROCS(0)),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
	}
	if files := openFiles(); b.cfg.Limits.fitFiles(files) {
		b.log.Warn("the process may open too few files for as many unauthenticated connections as configured", "files", files,
			"lowered to", b.cfg.Limits.Unauthenticated, "remedy", "raise the limit of open files (ulimit -n, LimitNOFILE), or lower Limits.Unauthenticated (--max-unauthenticated)")
	}
	b.door = newDoor(b.cfg.Limits, b.limited)
	if err := b.start(ctx); err != nil {
		for _, l := range []net.Listener{b.tcp, b.ws} {
			if l != nil {
				_ = l.Close()
			}
		}
		if b.store != nil {
			_ = b.store.close()
		}
		return nil, err
	}
	return b, nil
}

func (c Config) withDefaults() (Config, error) {
	var err error
	if c.Limits, err = c.Limits.withDefaults(); err != nil {
		return c, err
	}
	if c.Prefix == "" {
		c.Prefix = "padme"
	}
	if strings.ContainsAny(c.Prefix, "+#\x00") || c.Prefix[0] == '$' || strings.Contains("/"+c.Prefix+"/", "//") {
		return c, fmt.Errorf("%w: Prefix %q: want topic levels such as \"padme\", no wildcard, no leading $, no empty level", ErrInvalidConfig, c.Prefix)
	}
	if c.TLS != nil && len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil && c.TLS.GetConfigForClient == nil {
		return c, fmt.Errorf("%w: TLS without a certificate: set TLS.Certificates", ErrInvalidConfig)
	}
	if err := c.checkCertificateUsers(); err != nil {
		return c, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (b *Broker) start(ctx context.Context) (err error) {
	if b.cfg.DataDir != "" {
		if b.store, err = openStore(b.cfg.DataDir, b.cfg.Limits.Unwritten, b.limited, b.log); err != nil {
			return err
		}
	}
	if b.cfg.RuntimeDir != "" && b.cfg.Users != nil {
		if err := b.cfg.Users.recallFrom(b.cfg.RuntimeDir, b.log); err != nil {
			return err
		}
	}
	b.server = newServer(b.cfg)
	stopExpiry(b.server)
	rules := acl{prefix: b.cfg.Prefix + "/v1/"}
	b.access = &access{
		users: b.cfg.Users, certificates: b.cfg.CertificateUsers, acl: rules, quota: newQuota(b.cfg.Limits.Retained, rules),
		server: b.server, counts: &b.counts, log: b.log, limits: b.cfg.Limits, turns: newTurns(b.cfg.Limits.PasswordChecks), limited: b.limited,
	}
	b.flow = &flow{server: b.server, access: b.access, limits: b.cfg.Limits, counts: &b.counts, store: b.store}
	b.flow.sequence.Store(time.Now().UnixNano())
	b.flow.direct = &direct{server: b.server, access: b.access, counts: &b.counts, limit: b.cfg.Limits.PacketSize, prefix: []byte(b.access.acl.prefix)}
	b.sessions = newSessions(b)
	b.access.sessions = b.sessions
	b.hooks = []mqtt.Hook{b.access, b.flow, b.sessions, b.flow.direct}
	if b.store != nil {
		b.flow.persist = &persistence{store: b.store, server: b.server, expire: map[string]int64{}}
		b.hooks = append(b.hooks, b.flow.persist)
	}
	guard := newRetainGuard()
	b.guard = guard
	b.hooks = append(b.hooks, guard, newReplay(b)) // last: see OnPublish, OnSubscribe and OnPacketProcessed
	for _, h := range b.hooks {
		if err := b.server.AddHook(h, nil); err != nil {
			return fmt.Errorf("broker: %w", err)
		}
	}
	if b.tcp, err = listen(ctx, b.cfg.TCP); err != nil {
		return err
	}
	if b.ws, err = listen(ctx, b.cfg.WebSocket); err != nil {
		return err
	}
	if b.cfg.Metrics != nil {
		if err := b.cfg.Metrics.Register(collector{b}); err != nil {
			return fmt.Errorf("%w: Metrics: %w", ErrInvalidConfig, err)
		}
	}
	if err := b.server.Serve(); err != nil { // reads the store, listens on nothing
		if b.cfg.Metrics != nil {
			b.cfg.Metrics.Unregister(collector{b})
		}
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	b.access.quota.restore(b)
	b.restoreExpiry()
	b.sessions.restore()
	b.work.Go(func() { b.sessions.run(b.stop) })
	j := newJanitor(b, guard)
	b.work.Go(func() { j.run(b.stop) })
	b.serveListeners()
	return nil
}

// newServer makes mochi's server with what the defaults get wrong set right.
func newServer(cfg Config) *mqtt.Server {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumMessageExpiryInterval = 0 // the default forgets retained messages after a day
	c.MaximumInflight = uint16(cfg.Limits.Queue)
	c.MaximumClientWritesPending = int32(cfg.Limits.Unsent)
	c.MaximumPacketSize = uint32(cfg.Limits.PacketSize)
	c.TopicAliasMaximum = 0 // none are offered: each would keep a packet as long as the connection lasts
	c.Compatibilities.NoInheritedPropertiesOnAck = true
	c.Compatibilities.ObscureNotAuthorized = true
	// PassiveClientDisconnect stays off: with it the former connection of a
	// session that was taken over stays open and can go on publishing.
	return mqtt.New(&mqtt.Options{
		Capabilities:             c,
		Logger:                   slog.New(&logHandler{inner: cfg.Logger.Handler()}),
		SysTopicResendInterval:   10, // seconds; each time stops the world to read memory statistics
		ClientNetReadBufferSize:  4096,
		ClientNetWriteBufferSize: 8192,
		InlineClient:             true,
	})
}

// TCPAddr returns the address of the TCP listener, with its real port, or nil
// when there is none.
func (b *Broker) TCPAddr() net.Addr {
	if b.made() != nil {
		return nil
	}
	return addr(b.tcp)
}

// WebSocketAddr returns the address of the WebSocket listener, or nil.
func (b *Broker) WebSocketAddr() net.Addr {
	if b.made() != nil {
		return nil
	}
	return addr(b.ws)
}

// made is the error of a Broker that is not from Start, such as nil.
func (b *Broker) made() error {
	if b == nil || b.stop == nil {
		return fmt.Errorf("%w: this Broker is not from Start: look at the error that Start returned", ErrClosed)
	}
	return nil
}

func addr(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// URL returns the address at which a client on this host reaches the broker: the TCP
// listener (mqtt, mqtts), otherwise the WebSocket listener (ws, wss), otherwise "".
func (b *Broker) URL() string {
	if b.made() != nil {
		return ""
	}
	scheme, l := "mqtt", b.tcp
	if l == nil {
		scheme, l = "ws", b.ws
	}
	if l == nil {
		return ""
	}
	if b.cfg.TLS != nil {
		scheme += "s"
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// Dial returns an in-process connection for MQTT, subject to the same users and limits as
// any other. It does not block. The connection ends when either side closes it, or when the
// broker is closed. The client of package pubsub recognizes it and exchanges QoS 0 messages
// by calls; see [Attached].
func (b *Broker) Dial(ctx context.Context) (net.Conn, error) {
	if err := b.made(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("broker: dial: %w", err)
	}
	client, server := newPipe()
	c, err := b.admitConn(server, "in-process")
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &Attached{Conn: client, broker: c}, nil
}

// Close ends the broker. It stops listening, sends the clients what is queued for them (for
// at most a second, and not to a client that reads nothing for 100 ms), disconnects them
// and sends their wills, writes out the data directory, and waits until all of that has
// happened. If ctx ends first, it skips what remains to be sent, returns ctx's error and
// continues in the background; another Close waits again. Otherwise a second call returns
// what the first one did. Of mochi's goroutines, the housekeeping and one writer for each
// client may end moments later.
func (b *Broker) Close(ctx context.Context) error {
	if b == nil || b.stop == nil {
		return nil
	}
	b.closeOnce.Do(func() {
		b.mu.Lock()
		b.closing = true
		close(b.stop)
		b.mu.Unlock()
		go b.shutdown()
	})
	select {
	case <-b.done:
		return b.closeErr
	default:
	}
	select {
	case <-b.done:
		return b.closeErr
	case <-ctx.Done():
		for _, c := range b.connections() {
			_ = c.Close()
		}
		return fmt.Errorf("broker: close: %w", ctx.Err())
	}
}

func (b *Broker) shutdown() {
	defer close(b.done)
	b.closeListeners()
	var farewells sync.WaitGroup // at once, or each stalled client delays the next
	for _, c := range b.connections() {
		farewells.Go(func() { b.dismiss(c) })
	}
	farewells.Wait()
	b.work.Wait()
	b.closeErr = b.server.Close()
	if b.cfg.Metrics != nil {
		b.cfg.Metrics.Unregister(collector{b})
	}
	if b.store != nil {
		b.closeErr = errors.Join(b.closeErr, b.store.close())
	}
}

// dismiss sends a client what is queued for it, tells it why if it speaks MQTT 5, and closes
// its connection.
func (b *Broker) dismiss(c *conn) {
	c.flush()
	c.giveUpAfter(flushStall)
	if cl := c.client.Load(); cl != nil {
		if code := packets.ErrServerShuttingDown; cl.Properties.ProtocolVersion == 5 { // not by mochi, which closes the connection, too
			_ = cl.WritePacket(packets.Packet{
				FixedHeader: packets.FixedHeader{Type: packets.Disconnect},
				ReasonCode:  code.Code, Properties: packets.Properties{ReasonString: code.Reason},
			})
		}
		if ws, ok := c.Conn.(*webSocketConn); ok {
			ws.farewell()
		}
		cl.Stop(packets.ErrServerShuttingDown)
	}
	_ = c.Close()
}

func (b *Broker) connections() []*conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*conn
	for c := range b.conns {
		all = append(all, c)
	}
	return all
}
