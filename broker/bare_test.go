package broker_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// These tests are about the library alone, as docs/adr/0021-containing-the-library.md
// lists it: each passes while the library still does what we contain. One that fails
// after an upgrade says what of this package is no longer needed.

// witness is a hook that lets everybody in and everything pass, but deny.
type witness struct {
	mqtt.HookBase
	deny       string      // publications to this topic
	properties chan int    // of each CONNECT, when it is asked for the password
	published  chan string // topics
}

func (h *witness) ID() string { return "witness" }

func (h *witness) Provides(b byte) bool {
	return bytes.IndexByte([]byte{mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnPublished, mqtt.OnWillSent}, b) >= 0
}

func (h *witness) OnConnectAuthenticate(_ *mqtt.Client, pk packets.Packet) bool {
	h.properties <- len(pk.Properties.User)
	return true
}

func (h *witness) OnACLCheck(_ *mqtt.Client, topic string, write bool) bool {
	return !write || topic != h.deny
}

func (h *witness) OnWillSent(_ *mqtt.Client, pk packets.Packet) { h.published <- pk.TopicName }

// bare starts the library as it is.
func bare(t *testing.T) (*mqtt.Server, *witness) {
	t.Helper()
	s := mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler)})
	h := &witness{properties: make(chan int, 10), published: make(chan string, 10)}
	if err := s.AddHook(h, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, h
}

// attach connects to it; ended gets what the library's connection ends with: a panic, or
// nil.
func attach(t *testing.T, s *mqtt.Server) (c *rawConn, ended chan any) {
	t.Helper()
	near, far := net.Pipe()
	ended = make(chan any, 1)
	go func() {
		defer func() { ended <- recover(); _ = far.Close() }()
		_ = s.EstablishConnection("bare", far)
	}()
	t.Cleanup(func() { _ = near.Close() })
	return &rawConn{Conn: near, t: t}, ended
}

// in is connected with MQTT 5.
func in(t *testing.T, s *mqtt.Server, id string) (*rawConn, chan any) {
	t.Helper()
	c, ended := attach(t, s)
	c.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 0}, text(id)))
	if first, _ := c.receive(); first != 0x20 {
		t.Fatalf("packet %#x", first)
	}
	return c, ended
}

const upgrade = "the library has changed: %s is no longer needed, see docs/adr/0021-containing-the-library.md"

func TestBareLibraryDecodesWhateverStrangersSend(t *testing.T) {
	s, h := bare(t)
	c, _ := attach(t, s)
	p := bytes.Repeat([]byte{38, 0, 0, 0, 0}, 12_000)
	c.send(packet(0x10, text("MQTT"), []byte{5, 2, 0, 60, 0xe0, 0xd4, 3}, p, text("x"))) // 60,000 bytes
	select {
	case n := <-h.properties:
		if n != 12_000 {
			t.Errorf(upgrade, "the limit of properties")
		}
	case <-time.After(patience):
		t.Errorf(upgrade, "the limit of properties")
	}
}

func TestBareLibraryPanicsOnMalformedPackets(t *testing.T) {
	s, _ := bare(t)
	c, ended := in(t, s, "x")
	c.send(packet(0x82, []byte{0, 1, 0}, text("a"))) // no options
	if <-ended == nil {
		t.Errorf(upgrade, "the recovery in serve")
	}
}

func TestBareLibrarySendsRetainedMessagesForEachFilter(t *testing.T) {
	s, _ := bare(t)
	c, _ := in(t, s, "x")
	c.send(packet(0x31, text("r/a"), []byte{0}, []byte("x")))
	go c.send(packet(0x82, []byte{0, 1, 0}, bytes.Repeat(append(text("r/+"), 0), 3)))
	for range 4 { // the SUBACK and three times the same
		first, _ := c.receive()
		if first&0xf0 != 0x30 && first != 0x90 {
			t.Fatalf("packet %#x", first)
		}
	}
}

func TestBareLibraryMissesTheParentOfAFilter(t *testing.T) {
	s, _ := bare(t)
	c, _ := in(t, s, "x")
	c.send(packet(0x31, text("a"), []byte{0}, []byte("x")))
	c.send([]byte{0xc0, 0})
	c.receive()
	if got := s.Topics.Messages("a/#"); len(got) > 0 {
		t.Errorf(upgrade, "the matching of a with a/#")
	}
}

func TestBareLibraryAnswersNothingAboutSys(t *testing.T) {
	s, _ := bare(t)
	c, _ := in(t, s, "x")
	go c.send(append(packet(0x32, text("$SYS/x"), []byte{0, 1, 0}), 0xc0, 0))
	if first, _ := c.receive(); first != 0xd0 {
		t.Errorf(upgrade, "void, where publications to $SYS go")
	}
}

func TestBareLibrarySendsAnyWill(t *testing.T) {
	s, h := bare(t)
	h.deny = "forbidden"
	c, _ := attach(t, s)
	c.send(packet(0x10, text("MQTT"), []byte{5, 6, 0, 60, 0}, text("x"), []byte{0}, text("forbidden"), text("dead")))
	c.receive()
	_ = c.Close()
	select {
	case topic := <-h.published:
		if topic != "forbidden" {
			t.Errorf("a will on %s", topic)
		}
	case <-time.After(patience):
		t.Errorf(upgrade, "mayLeave")
	}
}

func TestBareLibraryForgetsRetainedMessages(t *testing.T) {
	if mqtt.NewDefaultServerCapabilities().MaximumMessageExpiryInterval == 0 {
		t.Errorf(upgrade, "MaximumMessageExpiryInterval in newServer")
	}
}

// deadlines notes whether a deadline was set.
type deadlines struct {
	net.Conn
	set chan struct{}
}

func (c deadlines) SetDeadline(t time.Time) error {
	select {
	case c.set <- struct{}{}:
	default:
	}
	return c.Conn.SetDeadline(t)
}

func TestBareLibraryWaitsForEverForAConnect(t *testing.T) {
	s, _ := bare(t)
	near, far := net.Pipe()
	c := deadlines{far, make(chan struct{}, 1)}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.EstablishConnection("bare", c) }()
	if _, err := near.Write([]byte{0x10}); err != nil { // it has begun to read
		t.Fatal(err)
	}
	if len(c.set) > 0 {
		t.Errorf(upgrade, "ConnectTimeout")
	}
	_ = near.Close()
	<-ended
}

func TestBareLibraryHasOneTableOfPacketIDs(t *testing.T) {
	s, _ := bare(t)
	c, _ := in(t, s, "x")
	go c.send(packet(0x82, []byte{0, 9, 0}, append(text("a"), 1)))
	c.receive()
	go c.send(packet(0x32, text("a"), []byte{0, 200, 0}))
	id := []byte(nil)
	for range 2 { // the PUBACK and the delivery
		if first, body := c.receive(); first == 0x32 {
			id = slices.Clone(body[3:5])
		}
	}
	go c.send(packet(0x82, id, []byte{0}, append(text("b"), 1)))
	if first, body := c.receive(); first != 0x90 || body[len(body)-1] < 0x80 {
		t.Errorf(upgrade, "stepAside")
	}
	go func() { _, _ = io.Copy(io.Discard, c) }()
}
