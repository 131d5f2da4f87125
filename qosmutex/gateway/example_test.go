package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
)

// A client that has nothing but MQTT takes a lock.
func ExampleServe() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := broker.Start(ctx, broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close(context.Background())
	p, err := pubsub.Join(ctx, b.URL(), "gateway")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(context.Background())
	serving, stop := context.WithCancel(ctx)
	var server sync.WaitGroup
	server.Go(func() {
		if err := gateway.Serve(serving, p, gateway.WithTopics("crane"), gateway.WithTiming(qosmutex.Local())); err != nil {
			log.Print(err)
		}
	})

	client := paho.NewClient(paho.NewClientOptions().AddBroker(b.URL()).SetClientID("panel"))
	client.Connect().Wait()
	answers := make(chan gateway.Answer, 100)
	client.Subscribe("padme/v1/default/lock/crane/client/panel/answer", 0, func(_ paho.Client, m paho.Message) {
		var a gateway.Answer
		if json.Unmarshal(m.Payload(), &a) == nil {
			answers <- a
		}
	}).Wait()
	ask := func(request string, want gateway.Outcome) {
		for { // whoever hears nothing sends the same again
			client.Publish("padme/v1/default/lock/crane/client/panel/request", 1, false, request).Wait()
			select {
			case a := <-answers:
				if a.Outcome == want {
					fmt.Println(a.ID, a.Outcome, a.Fence != "")
					return
				}
			case <-time.After(time.Second):
			case <-ctx.Done():
				log.Fatal(ctx.Err())
			}
		}
	}
	ask(`{"op":"acquire","id":"1"}`, gateway.Granted)
	ask(`{"op":"release","id":"1"}`, gateway.Released)
	client.Disconnect(100)
	stop()
	server.Wait()
	// Output:
	// 1 granted true
	// 1 released true
}

// What is left out has a default.
func ExampleDecodeRequest() {
	r, err := gateway.DecodeRequest([]byte(`{"op":"acquire","id":"7","wait_ms":5000}`))
	fmt.Println(r.Op, r.ID, r.Resource, r.Priority, r.Wait, r.Lease, err)
	_, err = gateway.DecodeRequest([]byte(`{"op":"sing","id":"7"}`))
	fmt.Println(err != nil)
	// Output:
	// acquire 7 default 100 5s 10s <nil>
	// true
}

func ExampleCheckTopic() {
	fmt.Println(gateway.CheckTopic("crane"))
	fmt.Println(errors.Is(gateway.CheckTopic(gateway.RoleTopic), qosmutex.ErrInvalidName))
	// Output:
	// <nil>
	// true
}
