package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
)

// Of what one participant says to all members of a lock topic they get a bounded part, at QoS
// 0 and 1 and retained. Others, other lock topics and all else are not concerned.
func TestFloodOfJoinsIsNotDelivered(t *testing.T) {
	for _, first := range []byte{0x30, 0x31, 0x32} {
		t.Run(fmt.Sprintf("%#x", first), func(t *testing.T) {
			registry := prometheus.NewRegistry()
			b := start(t, broker.Config{TCP: "127.0.0.1:0", Metrics: registry})
			subscriber, flood, other := raw(t, b), raw(t, b), raw(t, b)
			subscriber.connect("subscriber", "", "", "")
			subscriber.listen()
			flood.connect("flood", "", "", "")
			other.connect("other", "", "", "")
			const flooded, topics = 3000, 500
			begun := time.Now()
			go func() { // answers
				for b := make([]byte, 4096); ; {
					if _, err := flood.Read(b); err != nil {
						return
					}
				}
			}()
			say := func(c *rawConn, first byte, topic string) {
				var id []byte
				if first&6 != 0 {
					id = []byte{0, 7}
				}
				c.send(packet(first, text("padme/v1/default/"+topic), id, []byte("x")))
			}
			for range flooded {
				say(flood, first, "lock/crane/join/flood")
			}
			for i := range topics { // each opened once
				say(flood, 0x30, fmt.Sprintf("lock/t%d/join/flood", i))
				say(flood, 0x30, "lock/crane/member/flood")
			}
			say(other, 0x30, "lock/crane/join/other")
			got := map[string]int{}
			for got["t"] < topics || got["lock/crane/member/flood"] < topics || got["lock/crane/join/other"] < 1 {
				_, body := subscriber.receive()
				topic := strings.TrimPrefix(string(body[2:2+int(body[0])<<8+int(body[1])]), "padme/v1/default/")
				if strings.HasPrefix(topic, "lock/t") {
					topic = "t"
				}
				got[topic]++
			}
			n, most := got["lock/crane/join/flood"], 81+int(40*time.Since(begun).Seconds())
			if n < 80 || n > most {
				t.Errorf("%d of the flood were delivered, want 80 to %d", n, most)
			}
			if dropped := gather(t, registry)["padme_broker_refused_total/join"]; int(dropped) != flooded-n {
				t.Errorf("%v are counted, want %d", dropped, flooded-n)
			}
		})
	}
}
