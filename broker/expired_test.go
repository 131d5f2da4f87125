package broker

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// A retained message whose time is over is charged no longer.
func TestWhatHasExpiredIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := Start(context.Background(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		retainFor5Seconds(t, b)
		charged := func() int64 {
			b.access.quota.mu.Lock()
			defer b.access.quota.mu.Unlock()
			return b.access.quota.used[room{}]
		}
		if charged() == 0 {
			t.Error("nothing is charged")
		}
		time.Sleep(20 * time.Second)
		if n := charged(); n != 0 {
			t.Errorf("%d bytes are still charged", n)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// retainFor5Seconds retains a message that expires.
func retainFor5Seconds(t *testing.T, b *Broker) {
	t.Helper()
	conn, err := b.Dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var buf bytes.Buffer
	connect := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Connect}, ProtocolVersion: 5,
		Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), Clean: true, ClientIdentifier: "x"},
	}
	publish := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1, Retain: true}, ProtocolVersion: 5,
		PacketID: 1, TopicName: "r", Payload: []byte("x"), Properties: packets.Properties{MessageExpiryInterval: 5},
	}
	for _, encode := range []func(*bytes.Buffer) error{connect.ConnectEncode, publish.PublishEncode} {
		buf.Reset()
		if err := encode(&buf); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(buf.Bytes()); err != nil {
			t.Fatal(err)
		}
		skip(t, conn)
	}
}

// A restart makes nothing stay for ever.
func TestWhatWasLoadedExpires(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: t.TempDir()}
	b, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	retainFor5Seconds(t, b)
	if err := b.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if b, err = Start(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close(context.Background()) }()
	if b.access.quota.count() != 1 {
		t.Fatal("it is gone")
	}
	for end := time.Now().Add(30 * time.Second); b.access.quota.count() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is still there")
		}
	}
}

// mochi does not look for what has expired any more.
func TestMochiLooksForNothingThatHasExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := Start(context.Background(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		b.server.Topics.RetainMessage(packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true}, ProtocolVersion: 5,
			TopicName: "r", Payload: []byte("x"), Expiry: time.Now().Unix() + 1,
		}) // of which we do not know
		time.Sleep(10 * time.Second)
		if _, there := b.server.Topics.Retained.Get("r"); !there {
			t.Error("it does: is loop.retainedExpiry another one?")
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
