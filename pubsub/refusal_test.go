package pubsub

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"padme/tests/brokers"
	"padme/tests/bubble"
)

// moody is a broker with one client that refuses the subscriptions which its
// mood is against; a NATS cluster without a leader is like that for a while.
type moody struct {
	mu       sync.Mutex
	sessions int
	refuses  func(session int, filter string) bool
	conn     net.Conn
	wg       sync.WaitGroup
}

func (m *moody) dial(context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions++
	m.conn = server
	session := m.sessions
	m.wg.Go(func() { m.serve(session, server) })
	return client, nil
}

func (m *moody) serve(session int, conn net.Conn) {
	defer conn.Close()
	out := make(chan packets.ControlPacket, 1000)
	m.wg.Go(func() {
		for p := range out {
			_ = p.Write(conn)
		}
	})
	defer close(out)
	for {
		in, err := packets.ReadPacket(conn)
		if err != nil {
			return
		}
		switch in := in.(type) {
		case *packets.ConnectPacket:
			out <- packets.NewControlPacket(packets.Connack)
		case *packets.SubscribePacket:
			ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			ack.MessageID, ack.ReturnCodes = in.MessageID, []byte{1}
			if m.refuses(session, in.Topics[0]) {
				ack.ReturnCodes[0] = 0x80
			}
			out <- ack
		case *packets.PublishPacket:
			if in.Qos == 1 {
				ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
				ack.MessageID = in.MessageID
				out <- ack
			}
			if strings.Contains(in.TopicName, "/node/") {
				in.Qos = 0
				out <- in
			}
		}
	}
}

// cut ends the present session.
func (m *moody) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn.Close()
}

func (m *moody) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions
}

// A broker that refuses for a while what it had granted does not end a participant,
// and does not leave it deaf.
func TestARefusalAfterAGrantIsTriedAgain(t *testing.T) {
	for _, filter := range []string{"/node/a/+", "/x"} {
		t.Run(filter, func(t *testing.T) {
			cutAndRefused(t, func(session int, f string) bool { return session == 2 && strings.HasSuffix(f, filter) }, 3)
		})
	}
}

// What stays refused costs that subscription only.
func TestARefusalThatStaysCostsTheSubscription(t *testing.T) {
	cutAndRefused(t, func(session int, f string) bool { return session > 1 && strings.HasSuffix(f, "/x") }, 1+maxRefusals)
}

// cutAndRefused expects a participant that subscribes to x and whose connection is cut to be back
// after some sessions, of the broker that refuses it.
func cutAndRefused(t *testing.T, refuses func(session int, filter string) bool, sessions int) {
	t.Helper()
	brokers.Stays(t.Name(), brokers.VirtualTime)
	bubble.Test(t, func(t *testing.T) {
		m := &moody{refuses: refuses}
		a := join(t, "", "a", WithDialer(m.dial))
		t.Cleanup(func() { closeNow(t, a); m.cut(); m.wg.Wait() })
		if _, err := a.SubscribeRaw(testContext(t), Main, []string{"x"}, func(RawMessage) {}); err != nil {
			t.Fatal(err)
		}
		ups := make(chan bool, 10)
		a.Notify(func(up bool) { ups <- up })
		m.cut()
		if receive(t, ups, "loss") || !receive(t, ups, "reconnection") {
			t.Fatal("not down, then up")
		}
		if n := m.count(); n != sessions {
			t.Errorf("back after %d sessions, want %d", n, sessions)
		}
	})
}
