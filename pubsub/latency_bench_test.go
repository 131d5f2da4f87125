package pubsub

import (
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// BenchmarkOneWay compares a QoS 1 message through the bare client with a message
// through Send and Inbox, alternating on one broker. Medians are reported.
func BenchmarkOneWay(b *testing.B) {
	url := startBroker(b)
	arrived := make(chan time.Time, 1)
	from, to := bareClient(b, url, "bare-from"), bareClient(b, url, "bare-to")
	to.Subscribe("bare/#", 1, func(mqtt.Client, mqtt.Message) { arrived <- time.Now() }).Wait()
	p, q := join(b, url, "p"), join(b, url, "q")
	if _, err := q.Inbox("c", func(Message) { arrived <- time.Now() }); err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 64)
	var bareTimes, messageTimes []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		from.Publish("bare/q", 1, false, payload)
		bareTimes = append(bareTimes, (<-arrived).Sub(began))
		began = time.Now()
		if err := p.Send("q", "c", payload); err != nil {
			b.Fatal(err)
		}
		messageTimes = append(messageTimes, (<-arrived).Sub(began))
	}
	b.ReportMetric(float64(median(bareTimes).Nanoseconds())/1e3, "bare-µs")
	b.ReportMetric(float64(median(messageTimes).Nanoseconds())/1e3, "message-µs")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkThroughput sends as fast as the receiver takes, with a thousand
// messages on the way at most: through the bare client and as messages.
func BenchmarkThroughput(b *testing.B) {
	payload := make([]byte, 64)
	flood := func(b *testing.B, room chan struct{}, send func() error) {
		b.ReportAllocs()
		for b.Loop() {
			room <- struct{}{}
			if err := send(); err != nil {
				b.Fatal(err)
			}
		}
		for range cap(room) {
			room <- struct{}{}
		}
	}
	b.Run("bare", func(b *testing.B) {
		url, room := startBroker(b), make(chan struct{}, 1000)
		from, to := bareClient(b, url, "from"), bareClient(b, url, "to")
		to.Subscribe("t", 1, func(mqtt.Client, mqtt.Message) { <-room }).Wait()
		flood(b, room, func() error { from.Publish("t", 1, false, payload); return nil })
	})
	b.Run("messages", func(b *testing.B) {
		url, room := startBroker(b), make(chan struct{}, 1000)
		p, q := join(b, url, "p"), join(b, url, "q")
		if _, err := q.Inbox("c", func(Message) { <-room }); err != nil {
			b.Fatal(err)
		}
		flood(b, room, func() error { return p.Send("q", "c", payload) })
	})
}

func bareClient(b testing.TB, url, id string) mqtt.Client {
	b.Helper()
	c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(url).SetClientID(id))
	if t := c.Connect(); t.Wait() && t.Error() != nil {
		b.Fatal(t.Error())
	}
	b.Cleanup(func() { c.Disconnect(100) })
	return c
}

// BenchmarkIdle reports the memory of an idle participant and of a bare client.
func BenchmarkIdle(b *testing.B) {
	const n = 100
	for b.Loop() {
		url := startBroker(b)
		before := heapInUse()
		var clients []mqtt.Client
		for i := range n {
			c := mqtt.NewClient(mqtt.NewClientOptions().AddBroker(url).SetClientID("bare" + strconv.Itoa(i)))
			c.Connect().Wait()
			clients = append(clients, c)
		}
		bare := heapInUse() - before
		before = heapInUse()
		for i := range n {
			join(b, url, strconv.Itoa(i))
		}
		b.ReportMetric(float64(bare)/n, "bare-B")
		b.ReportMetric(float64(heapInUse()-before)/n, "participant-B")
		for _, c := range clients {
			c.Disconnect(100)
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
