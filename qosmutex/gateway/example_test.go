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
	"padme/qosmutex/jsonlock"
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
	server, err := qosmutex.NewServer(p, qosmutex.WithTiming(qosmutex.Local()))
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	serving, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := gateway.Serve(serving, server, gateway.WithTopics("crane")); err != nil {
			log.Print(err)
		}
	})

	client := paho.NewClient(paho.NewClientOptions().AddBroker(b.URL()).SetClientID("panel"))
	client.Connect().Wait()
	answers := make(chan jsonlock.Answer, 100)
	client.Subscribe("padme/v1/default/lock/crane/client/panel/answer", 0, func(_ paho.Client, m paho.Message) {
		var a jsonlock.Answer
		if json.Unmarshal(m.Payload(), &a) == nil {
			answers <- a
		}
	}).Wait()
	ask := func(request string, want jsonlock.Outcome) {
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
	ask(`{"op":"acquire","id":"1"}`, jsonlock.Granted)
	ask(`{"op":"release","id":"1"}`, jsonlock.Released)
	client.Disconnect(100)
	stop()
	running.Wait()
	// Output:
	// 1 granted true
	// 1 released true
}

func ExampleCheckTopic() {
	fmt.Println(gateway.CheckTopic("crane"))
	fmt.Println(errors.Is(gateway.CheckTopic(gateway.RoleTopic), qosmutex.ErrInvalidName))
	// Output:
	// <nil>
	// true
}

func ExampleDefaultLimits() {
	l := gateway.DefaultLimits()
	l.ClientRequests = 100 // nobody here needs more
	fmt.Println(l.Requests, l.ClientRequests, l.Check())
	l.ClientRate = 1
	fmt.Println(l.Check())
	// Output:
	// 32768 100 <nil>
	// qosmutex: invalid configuration: Limits.ClientRate is 1: choose 10 to 100000, or 0 for the default
}
