package connection

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub/internal/failure"
)

// bareBroker is the broker's end of a link.
type bareBroker struct {
	t    *testing.T
	conn net.Conn
	link *Link
	got  chan string // what was received, as "topic payload"
}

func linked(t *testing.T) *bareBroker {
	t.Helper()
	p := &bareBroker{t: t, got: make(chan string, 100)}
	client, server := net.Pipe()
	p.conn = server
	go func() {
		_, _ = server.Read(make([]byte, 4096)) // the CONNECT
		_, _ = server.Write([]byte{0x20, 2, 0, 0})
	}()
	k, err := Connect(t.Context(), Config{
		ClientID: "a", KeepAlive: time.Minute, // nobody answers its pings
		Open: func(context.Context) (net.Conn, error) { return client, nil },
		Receive: func(topic string, payload []byte, retained bool) {
			if retained {
				topic += "!"
			}
			p.got <- topic + " " + string(payload)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.link = k
	t.Cleanup(func() { k.Close(0); server.Close() })
	return p
}

func (p *bareBroker) write(b ...byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// read returns the next n bytes from the link.
func (p *bareBroker) read(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	_ = p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(p.conn, b); err != nil {
		p.t.Fatal(err)
	}
	return b
}

func TestPublishesAreHandedOnAndAcknowledged(t *testing.T) {
	p := linked(t)
	p.write(slices.Concat(
		[]byte{0x30, 4, 0, 1, 't', 'a'},       // at QoS 0
		[]byte{0x32, 6, 0, 1, 't', 0, 7, 'b'}, // at QoS 1
		[]byte{0x3b, 6, 0, 1, 't', 1, 2, 'c'}, // once more, and retained
		[]byte{0x32, 5, 0, 1, 't', 0, 9},      // empty
		[]byte{0x40, 2, 0x12, 0x34},           // acknowledges what was never sent
	)...)
	for _, want := range []string{"t a", "t b", "t! c", "t "} {
		if got := <-p.got; got != want {
			t.Errorf("received %q, want %q", got, want)
		}
	}
	if want, got := []byte{0x40, 2, 0, 7, 0x40, 2, 1, 2, 0x40, 2, 0, 9}, p.read(12); !bytes.Equal(got, want) {
		t.Errorf("acknowledged with %x, want %x", got, want)
	}
}

// A broker that cannot write to a participant does not read from it.
func TestAcknowledgementsWaitWhileTheBrokerDoesNotRead(t *testing.T) {
	p := linked(t)
	_ = p.conn.SetWriteDeadline(time.Now().Add(3 * time.Second)) // before the link gives up
	const n = 3 * maxAcks
	for range n {
		p.write(0x32, 6, 0, 1, 't', 0, 7, 'b')
		<-p.got
	}
	if want, got := bytes.Repeat([]byte{0x40, 2, 0, 7}, n), p.read(4*n); !bytes.Equal(got, want) {
		t.Errorf("acknowledged with %x", got)
	}
}

func TestPublishesWaitForTheirAcknowledgement(t *testing.T) {
	p := linked(t)
	large := bytes.Repeat([]byte{'x'}, 2*maxKeptBuffer)
	var receipts []receipt
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for _, payload := range [][]byte{[]byte("a"), large, []byte("c")} {
			receipts = append(receipts, p.link.Publish(&Packet{Topic: "t", Payload: payload, QoS: 1, Retain: true}))
		}
	}()
	if got := p.read(8); !bytes.Equal(got, []byte{0x33, 6, 0, 1, 't', 0x80, 0, 'a'}) {
		t.Errorf("the first is %x", got)
	}
	if got := p.read(8 + len(large)); !bytes.Equal(got[:8], []byte{0x33, 0x85, 0x40, 0, 1, 't', 0x80, 1}) || !bytes.Equal(got[8:], large) {
		t.Errorf("the large one begins with %x", got[:8])
	}
	p.read(8)
	<-sent
	p.write(0x40, 2, 0x80, 1)
	if err := receipts[1].Wait(t.Context()); err != nil || receipts[0].done() || receipts[2].done() {
		t.Errorf("acknowledged: %v, %v, %v with %v", receipts[0].done(), receipts[1].done(), receipts[2].done(), err)
	}
	p.conn.Close()
	for _, i := range []int{0, 2} {
		if err := receipts[i].token.Error(); !errors.Is(err, failure.ErrOffline) {
			t.Errorf("%d, after the loss: %v", i, err)
		}
	}
	if r := p.link.Publish(&Packet{Topic: "t", QoS: 1}); !r.done() {
		t.Error("a publish after the loss waits")
	}
}

// A broker that is broken, or somebody who speaks in its place, ends the connection and no more.
func TestWrongPublishesEndTheConnection(t *testing.T) {
	for name, b := range map[string][]byte{
		"no topic":          {0x30, 1, 0},
		"empty":             {0x30, 0},
		"a topic too long":  {0x30, 4, 0, 9, 't', 'a'},
		"no packet id":      {0x32, 4, 0, 1, 't', 1},
		"QoS 2":             {0x34, 6, 0, 1, 't', 0, 1, 'a'},
		"QoS 3":             {0x36, 6, 0, 1, 't', 0, 1, 'a'},
		"a long answer":     {0x40, 3, 0x80, 0, 0},
		"an empty answer":   {0x40, 0},
		"4 GB of a publish": {0x30, 0xff, 0xff, 0xff, 0x7f},
	} {
		t.Run(name, func(t *testing.T) {
			p := linked(t)
			p.write(b...)
			select {
			case <-p.link.lost:
			case <-time.After(10 * time.Second):
				t.Fatal("the connection goes on")
			}
			if len(p.got) > 0 {
				t.Errorf("received %q", <-p.got)
			}
		})
	}
}

// What waits is written in its order, and together as far as nobody has to acknowledge it.
func TestMessagesThatWaitAreWrittenTogether(t *testing.T) {
	p := linked(t)
	l := &Lane{Out: NewQueue()}
	l.Out.Open()
	large := strings.Repeat("x", 2*maxKeptBuffer)
	for _, m := range []Packet{{Payload: []byte("a")}, {Payload: []byte("b")}, {Payload: []byte("c"), QoS: 1}, {Payload: []byte("d")}, {Payload: []byte(large)}, {Payload: []byte("e")}} {
		m.Topic = "t"
		if err := l.Put(m); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var pump sync.WaitGroup
	pump.Go(func() { l.pump(ctx, p.link) })
	writes := []string{ // or fewer, as what waits while one is underway goes out together
		"0\x04\x00\x01ta" + "0\x04\x00\x01tb" + "2\x06\x00\x01t\x80\x00c",
		"0\x04\x00\x01td" + "0\x83\x40\x00\x01t", large,
		"0\x04\x00\x01te",
	}
	want, got := strings.Join(writes, ""), ""
	for n := 1; len(got) < len(want); n++ {
		b := make([]byte, 4*maxKeptBuffer)
		_ = p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		size, err := p.conn.Read(b) // what one write wrote
		if err != nil {
			t.Fatal(err)
		}
		got += string(b[:size])
		if n > len(writes) || n == 1 && !strings.HasPrefix(got, writes[0]) {
			t.Errorf("write %d wrote %.40q", n, b[:size])
		}
	}
	if got != want {
		t.Errorf("wrote %.60q, want %.60q", got, want)
	}
	cancel()
	p.conn.Close() // if it still writes
	pump.Wait()
}
