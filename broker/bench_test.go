package broker

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// BenchmarkRoundTrip is client → broker → other client → broker → client, over
// what carries the connections.
func BenchmarkRoundTrip(b *testing.B) {
	dial := map[string]func(*Broker) (net.Conn, error){
		"buffered": func(br *Broker) (net.Conn, error) { return br.Dial(context.Background()) },
		"net.Pipe": func(br *Broker) (net.Conn, error) {
			client, server := net.Pipe()
			return client, br.admit(server, "in-process")
		},
		"tcp": func(br *Broker) (net.Conn, error) { return net.Dial("tcp", br.TCPAddr().String()) },
	}
	for _, qos := range []byte{0, 1} {
		for _, name := range []string{"buffered", "net.Pipe", "tcp"} {
			b.Run(name+"/qos="+string('0'+rune(qos)), func(b *testing.B) {
				br, err := Start(context.Background(), Config{TCP: "127.0.0.1:0"})
				if err != nil {
					b.Fatal(err)
				}
				defer br.Close(context.Background())
				connect := func(h paho.MessageHandler) paho.Client {
					c := paho.NewClient(paho.NewClientOptions().AddBroker("mqtt://x").SetAutoReconnect(false).
						SetDefaultPublishHandler(h).
						SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return dial[name](br) }))
					if token := c.Connect(); token.Wait() && token.Error() != nil {
						b.Fatal(token.Error())
					}
					return c
				}
				back := make(chan struct{}, 1)
				echo := connect(func(c paho.Client, m paho.Message) { c.Publish("pong", qos, false, m.Payload()) })
				caller := connect(func(paho.Client, paho.Message) { back <- struct{}{} })
				echo.Subscribe("ping", qos, nil).Wait()
				caller.Subscribe("pong", qos, nil).Wait()
				payload := make([]byte, 64)
				for b.Loop() {
					caller.Publish("ping", qos, false, payload)
					select {
					case <-back:
					case <-time.After(5 * time.Second):
						b.Fatal("lost")
					}
				}
				echo.Disconnect(0)
				caller.Disconnect(0)
			})
		}
	}
}

// BenchmarkStore is what a retained message or a queued one costs.
func BenchmarkStore(b *testing.B) {
	s, err := openLog(b.TempDir(), testLog(b))
	if err != nil {
		b.Fatal(err)
	}
	defer s.close()
	value := make([]byte, 300)
	for b.Loop() {
		s.put("bucket", "key", value)
	}
}
