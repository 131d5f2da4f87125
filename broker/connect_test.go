package broker_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/pubsub"
	"padme/tests/capture"
)

// connect5 is an MQTT 5 CONNECT of a user with so many empty user properties.
func connect5(id, user, password string, properties int) []byte {
	p := bytes.Repeat([]byte{38, 0, 0, 0, 0}, properties)
	length := byte(len(p)) // below 128
	return packet(0x10, text("MQTT"), []byte{5, 0xc2, 0, 60, length}, p, text(id), text(user), text(password))
}

// What a CONNECT may hold is judged before anything of it is decoded, and who is
// refused is told so in its version of MQTT.
func TestConnectsAreJudged(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Metrics: registry, Limits: broker.Limits{ConnectSize: 200, Properties: 3, Clients: 1}})
	for _, c := range []struct {
		name   string
		packet []byte
		answer []byte // nil: the connection is closed
	}{
		{"a wrong password", connect5("x", "alice", "guess", 0), []byte{0, 0x86}},
		{"a wrong password of MQTT 3.1.1", packet(0x10, text("MQTT"), []byte{4, 0xc2, 0, 60}, text("x"), text("alice"), text("guess")), []byte{0, 5}},
		{"a password twice, with a NUL between", connect5("x", "alice", "alice\x00alice", 0), []byte{0, 0x86}},
		{"no name", packet(0x10, text("MQTT"), []byte{4, 2, 0, 60}, text("x")), []byte{0, 5}},
		{"too many properties", connect5("x", "alice", "alice", 4), nil},
		{"too long", connect5("x", "alice", strings.Repeat("x", 200), 0), nil},
		{"half a name", packet(0x10, text("MQTT"), []byte{4, 0x82, 0, 60}, text("x"), []byte{0, 9, 'a'}), nil},
		{"all is well", connect5("y", "alice", "alice", 3), []byte{0, 0}},
		{"one more client", connect5("z", "alice", "alice", 0), []byte{0, 0x89}},
		{"one more client of MQTT 3.1.1", packet(0x10, text("MQTT"), []byte{4, 0xc2, 0, 60}, text("z"), text("alice"), text("alice")), []byte{0, 3}},
	} {
		r := raw(t, b)
		r.send(c.packet)
		if c.answer == nil {
			r.gone()
			continue
		}
		if first, body := r.receive(); first != 0x20 || !bytes.Equal(body[:2], c.answer) {
			t.Errorf("%s: %#x %v, want %v", c.name, first, body, c.answer)
		}
	}
	wantLimited(t, registry, map[string]float64{"max-connect-size": 1, "max-properties": 1, "max-clients": 2})
}

// Of those who wait for their password to be checked, the ones who have gone away cost
// nothing, and what a client sends behind its CONNECT is not lost.
func TestWhoeverIsGoneLosesItsPlace(t *testing.T) {
	b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: cast(t), Limits: broker.Limits{PasswordChecks: 1}})
	for i := range 1000 { // at 50 ms for each they would take a minute
		c, err := net.Dial("tcp", b.TCPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(connect5("x", "alice", fmt.Sprint("guess", i), 0))
		_ = c.Close()
	}
	r := raw(t, b)
	begin := time.Now()
	r.send(append(connect5("x", "bob", "bob", 0), 0xc0, 0)) // and a ping
	for _, want := range []byte{0x20, 0xd0} {
		if first, body := r.receive(); first != want {
			t.Fatalf("%#x %v after %v, want %#x", first, body, time.Since(begin), want)
		}
	}
}

// A client id may have 512 bytes, in which those of participants with the longest names fit;
// one that is longer is refused, in each version of MQTT, and told once who it was.
func TestClientIDsAreBounded(t *testing.T) {
	id := strings.Repeat("x", 512)
	for _, users := range []*broker.Users{nil, cast(t)} {
		registry, log := prometheus.NewRegistry(), &capture.Text{}
		b := start(t, broker.Config{TCP: "127.0.0.1:0", Users: users, Metrics: registry, Logger: log.Logger()})
		for range 2 {
			for _, c := range []struct {
				id      string
				expiry  uint32
				connack byte
			}{{id, 0, 0}, {id, 9, 0}, {id + "x", 0, 2}, {id + "x", 9, 0x85}} {
				if _, connack := keep(t, b, c.id, "alice", c.expiry); connack[1] != c.connack {
					t.Errorf("%d bytes: CONNACK %v, want %d", len(c.id), connack, c.connack)
				}
			}
		}
		if n := gather(t, registry)["padme_broker_refused_total/connect"]; n != 4 {
			t.Errorf("%v are counted", n)
		}
		if n := strings.Count(log.String(), "512"); n != 1 {
			t.Errorf("%d lines in the log: %s", n, log)
		}
		name := strings.Repeat("/", 128)
		var opts []pubsub.Option
		if users != nil {
			opts = append(opts, pubsub.WithCredentials("root", "root"))
		}
		p, err := pubsub.Join(t.Context(), b.URL(), name, opts...)
		if err != nil {
			t.Fatal(err)
		}
		_ = p.Close(t.Context())
	}
}
