package broker

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// BenchmarkPublish is a QoS 1 publication up to its PUBACK, a hundred under way
// at a time, to nobody: clean is what the disk must not slow down, the others
// are what it costs.
func BenchmarkPublish(b *testing.B) {
	for _, kind := range []string{"clean", "retained", "queued"} {
		b.Run(kind, func(b *testing.B) {
			br, err := Start(context.Background(), Config{DataDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer br.Close(context.Background())
			connect := func(id string, clean bool) paho.Client {
				c := paho.NewClient(paho.NewClientOptions().AddBroker("mqtt://x").SetAutoReconnect(false).SetClientID(id).SetCleanSession(clean).
					SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) { return br.Dial(context.Background()) }))
				if token := c.Connect(); token.Wait() && token.Error() != nil {
					b.Fatal(token.Error())
				}
				return c
			}
			if kind == "queued" {
				s := connect("sleeper", false)
				s.Subscribe("t/#", 1, nil).Wait()
				s.Disconnect(50)
			}
			pub := connect("pub", true)
			tokens := make(chan paho.Token, 100)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for token := range tokens {
					token.Wait()
				}
			}()
			payload := make([]byte, 200)
			for i := 0; b.Loop(); i++ {
				tokens <- pub.Publish("t/"+strconv.Itoa(i%100), 1, kind == "retained", payload)
			}
			close(tokens)
			<-done
			pub.Disconnect(0)
		})
	}
}
