package broker_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// More of what the library does alone, and costs; see bare_test.go.

func TestBareLibrarySpendsOnEachConnection(t *testing.T) {
	s, _ := bare(t)
	var before, after runtime.MemStats
	all := make([]*mqtt.Client, 100)
	runtime.ReadMemStats(&before)
	for i := range all {
		near, far := net.Pipe()
		defer near.Close()
		all[i] = s.NewClient(far, "bare", "", false)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(len(all)); each < 64<<10 {
		t.Errorf(upgrade, fmt.Sprintf("keeping connections away that have %d bytes", each))
	}
}

// asks is a hook that takes its time for a password.
type asks struct {
	mqtt.HookBase
	asked, answer chan struct{}
}

func (h *asks) ID() string           { return "asks" }
func (h *asks) Provides(b byte) bool { return b == mqtt.OnConnectAuthenticate }
func (h *asks) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool {
	h.asked <- struct{}{}
	<-h.answer
	return true
}

func TestBareLibraryAsksForThePasswordOfWhoHasGone(t *testing.T) {
	s := mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler)})
	h := &asks{asked: make(chan struct{}), answer: make(chan struct{})}
	if err := s.AddHook(h, nil); err != nil {
		t.Fatal(err)
	}
	c, ended := attach(t, s)
	c.send(packet(0x10, text("MQTT"), []byte{4, 2, 0, 60}, text("x")))
	<-h.asked
	_ = c.Close()
	select {
	case <-ended:
		t.Errorf(upgrade, "conn.lookAhead")
	case <-time.After(50 * time.Millisecond):
	}
	close(h.answer)
	<-ended
}

func TestBareLibraryTakesAnyNumberOfFiltersAndLevels(t *testing.T) {
	for name, filters := range map[string][]byte{
		"filters":              bytes.Repeat(append(text("a"), 0), 10_000),
		"levels":               append(text(strings.Repeat("/", 10_000)), 0),
		"shared subscriptions": bytes.Join([][]byte{append(text("$share/a/x"), 0), bytes.Repeat(append(text("$share/b/x"), 0), 1000)}, nil),
	} {
		s, _ := bare(t)
		c, _ := in(t, s, "x")
		go c.send(packet(0x82, []byte{0, 1, 0}, filters))
		if first, body := c.receive(); first != 0x90 || slices.Max(body[3:]) > 2 {
			t.Errorf(upgrade, "a limit of "+name)
		}
	}
}

func TestBareLibraryCopiesAPayloadForEachSubscriber(t *testing.T) {
	pk := packets.Packet{Payload: []byte("x")}
	if other := pk.Copy(false); unsafe.SliceData(other.Payload) == unsafe.SliceData(pk.Payload) {
		t.Errorf(upgrade, "counting the bytes that wait for each connection")
	}
}

// small starts the library with a queue of four messages for each client.
func small(t *testing.T) *mqtt.Server {
	t.Helper()
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumClientWritesPending = 4
	s := mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler), Capabilities: c, InlineClient: true})
	if err := s.AddHook(&witness{properties: make(chan int, 10), published: make(chan string, 10)}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestBareLibraryDropsWhatOthersSendInAFlood(t *testing.T) {
	s := small(t)
	c, _ := in(t, s, "x")
	go c.send(packet(0x82, []byte{0, 1, 0}, append(text("a"), 0)))
	c.receive()
	stuck(t, s)
	for range 10 {
		if err := s.Publish("a", []byte("flood"), false, 0); err != nil {
			t.Fatal(err)
		}
	}
	dropped := atomic.LoadInt64(&s.Info.MessagesDropped)
	if err := s.Publish("a", []byte("of another one"), false, 0); err != nil {
		t.Fatal(err)
	}
	if dropped == 0 || atomic.LoadInt64(&s.Info.MessagesDropped) == dropped {
		t.Errorf(upgrade, "share")
	}
}

func TestBareLibraryDropsRetainedMessagesBeyondAQueue(t *testing.T) {
	s := small(t)
	for i := range 20 {
		if err := s.Publish(fmt.Sprint("r/", i), []byte("x"), true, 0); err != nil {
			t.Fatal(err)
		}
	}
	c, _ := in(t, s, "x")
	go c.send(packet(0x82, []byte{0, 1, 0}, append(text("r/+"), 0)))
	c.receive() // the SUBACK, and no more
	for end := time.Now().Add(patience); atomic.LoadInt64(&s.Info.MessagesDropped) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf(upgrade, "the waiting of replay")
		}
	}
}

func TestBareLibraryKeepsThePacketForAFilter(t *testing.T) {
	s, _ := bare(t)
	c, _ := in(t, s, "x")
	property := append(append([]byte{38}, text("k")...), text(strings.Repeat("x", 60_000))...)
	properties := bytes.Repeat(property, 8)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 20 {
		body := bytes.Join([][]byte{{0, 1}, packet(0, properties)[1:], append(text(fmt.Sprint("f", i)), 0)}, nil)
		go c.send(packet(0x82, body))
		c.receive()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept < 20*400_000/2 {
		t.Errorf(upgrade, fmt.Sprintf("ownStrings, with %d bytes", kept))
	}
	runtime.KeepAlive(s)
}

// reads notes what kinds of packets were decoded.
type reads struct {
	mqtt.HookBase
	kinds chan byte
}

func (h *reads) ID() string           { return "reads" }
func (h *reads) Provides(b byte) bool { return b == mqtt.OnPacketRead }
func (h *reads) OnPacketRead(_ *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	h.kinds <- pk.FixedHeader.Type
	return pk, nil
}

func TestBareLibraryDecodesWhatOnlyAServerSends(t *testing.T) {
	s, _ := bare(t)
	h := &reads{kinds: make(chan byte, 10)}
	if err := s.AddHook(h, nil); err != nil {
		t.Fatal(err)
	}
	c, _ := in(t, s, "x")
	<-h.kinds                                // the CONNECT
	c.send(packet(0x90, []byte{0, 1, 0, 0})) // a SUBACK
	select {
	case kind := <-h.kinds:
		if kind != packets.Suback {
			t.Errorf("packet %d", kind)
		}
	case <-time.After(patience):
		t.Errorf(upgrade, "the list of packets that wire takes")
	}
}

func TestBareLibraryWritesUnderALock(t *testing.T) {
	s := small(t)
	c, _ := in(t, s, "x")
	go c.send(packet(0x82, []byte{0, 1, 0}, append(text("a"), 0)))
	c.receive()
	stuck(t, s)
}

// stuck publishes to a client that reads no more, and waits until its lock is held to write that.
func stuck(t *testing.T, s *mqtt.Server) {
	t.Helper()
	if err := s.Publish("a", bytes.Repeat([]byte("x"), 10_000), false, 0); err != nil { // more than is buffered
		t.Fatal(err)
	}
	cl, _ := s.Clients.Get("x")
	held := 0 // so often in turn
	for end := time.Now().Add(patience); held < 5; time.Sleep(time.Millisecond) {
		if held++; cl.TryLock() {
			cl.Unlock()
			held = 0
		}
		if time.Now().After(end) {
			t.Fatalf(upgrade, "sendBuffer")
		}
	}
}

func TestBareLibraryLooksForWhatHasExpired(t *testing.T) {
	s, _ := bare(t)
	loop := reflect.ValueOf(s).Elem().FieldByName("loop")
	if !loop.IsValid() || loop.Kind() != reflect.Pointer || !loop.Elem().FieldByName("retainedExpiry").IsValid() {
		t.Errorf(upgrade, "stopExpiry")
	}
}
