package broker

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"padme/tests/bubble"
)

// slowEnd is a processor that has other things to do while a session is removed.
type slowEnd struct {
	mqtt.HookBase
	first   atomic.Bool
	entered chan struct{}
}

func (*slowEnd) ID() string           { return "slow" }
func (*slowEnd) Provides(b byte) bool { return bytes.IndexByte([]byte{mqtt.OnUnsubscribed}, b) >= 0 }

func (h *slowEnd) OnUnsubscribed(*mqtt.Client, packets.Packet) {
	if h.first.CompareAndSwap(false, true) {
		close(h.entered)
		time.Sleep(300 * time.Millisecond)
	}
}

// A client that comes back while the broker removes its former session gets what it
// subscribes to.
func TestReturnWhileTheFormerSessionEnds(t *testing.T) { returnWhileItEnds(t, true) }

func TestReturnWhileTheFormerSessionExpires(t *testing.T) { returnWhileItEnds(t, false) }

func returnWhileItEnds(t *testing.T, clean bool) {
	t.Parallel()
	b, err := Start(context.Background(), Config{Limits: Limits{SessionExpiry: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	slow := &slowEnd{entered: make(chan struct{})}
	if err := b.server.AddHook(slow, nil); err != nil {
		t.Fatal(err)
	}
	var cable net.Conn
	connect := func() paho.Client {
		o := paho.NewClientOptions().AddBroker("mqtt://in-process").SetClientID("same").SetAutoReconnect(false).SetCleanSession(clean)
		o.SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			var err error
			cable, err = b.Dial(context.Background())
			return cable, err
		})
		c := paho.NewClient(o)
		if token := c.Connect(); !token.WaitTimeout(5*time.Second) || token.Error() != nil {
			t.Fatal("no connection: ", token.Error())
		}
		t.Cleanup(func() { c.Disconnect(0) })
		return c
	}
	connect().Subscribe("q", 1, nil).WaitTimeout(5 * time.Second)
	_ = cable.Close()
	<-slow.entered
	again := connect()
	came := make(chan struct{}, 1)
	again.Subscribe("q", 1, func(paho.Client, paho.Message) { came <- struct{}{} }).WaitTimeout(5 * time.Second)
	time.Sleep(600 * time.Millisecond)
	again.Publish("q", 1, false, "x").WaitTimeout(5 * time.Second)
	select {
	case <-came:
	case <-time.After(5 * time.Second):
		t.Error("it is subscribed, and gets nothing")
	}
}

// cutter cuts connections before their CONNACK is out.
type cutter struct{ mqtt.HookBase }

func (*cutter) ID() string           { return "cutter" }
func (*cutter) Provides(b byte) bool { return b == mqtt.OnSessionEstablish }

func (*cutter) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) { _ = connOf(cl).Close() }

// A connection that ends before its CONNACK is out leaves no session behind: a clean one at
// once, another one when it expires.
func TestCutBeforeItsConnack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, err := Start(context.Background(), Config{Limits: Limits{SessionExpiry: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		if err := b.server.AddHook(&cutter{}, nil); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			c, err := b.Dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			flags := byte(i % 2 * 2)
			_, _ = c.Write([]byte{0x10, 14, 0, 4, 'M', 'Q', 'T', 'T', 4, flags, 0, 60, 0, 2, 's', byte('a' + i)})
			_, _ = c.Read(make([]byte, 1)) // until it ends
			_ = c.Close()
		}
		time.Sleep(10 * time.Second)
		if n := b.server.Clients.Len() - 1; n != 10 { // without the inline client
			t.Errorf("%d sessions wait for their clients", n)
		}
		time.Sleep(2 * time.Minute)
		if n := b.server.Clients.Len() - 1; n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}
