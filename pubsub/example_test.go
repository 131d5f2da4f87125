package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"padme/broker"
	"padme/pubsub"
)

// exampleBroker starts a broker for one example.
func exampleBroker(ctx context.Context) (url string, stop func()) {
	b, err := broker.Start(ctx, broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	return b.URL(), func() { _ = b.Close(context.Background()) }
}

// Two participants exchange a message.
func ExampleJoin() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()

	crane, err := pubsub.Join(ctx, url, "crane 1")
	if err != nil {
		log.Fatal(err)
	}
	defer crane.Close(ctx)
	gate, err := pubsub.Join(ctx, url, "gate")
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close(ctx)

	messages := make(chan string, 1)
	if _, err := gate.Inbox("requests", func(l pubsub.Message) {
		messages <- l.From + " asks: " + string(l.Payload)
	}); err != nil {
		log.Fatal(err)
	}
	if err := crane.Send("gate", "requests", []byte("open, please")); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-messages)
	// Output: crane 1 asks: open, please
}

// A robot's position reaches a map, whatever happens to the network meanwhile.
func ExampleNewWriter() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "robot")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	type Position struct {
		Robot string `pubsub:"key"`
		X, Y  float64
	}
	topic, err := pubsub.NewTopic[Position](p, "positions")
	if err != nil {
		log.Fatal(err)
	}
	// The last position of each robot, also for maps that are opened later.
	qos := pubsub.QoS{Reliability: pubsub.Reliable, Durability: pubsub.TransientLocal}
	w, err := pubsub.NewWriter(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Write(ctx, Position{Robot: "r1", X: 3, Y: 4}); err != nil {
		log.Fatal(err)
	}

	r, err := pubsub.NewReader(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	for s, err := range r.Samples(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.Data.Robot, "is at", s.Data.X, s.Data.Y)
		break
	}
	// Output: r1 is at 3 4
}

// A reader learns when an instance is gone.
func ExampleNewReader() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "hall")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	type Door struct {
		Number int `pubsub:"key"`
		Open   bool
	}
	topic, err := pubsub.NewTopic[Door](p, "doors")
	if err != nil {
		log.Fatal(err)
	}
	qos := pubsub.QoS{Reliability: pubsub.Reliable, History: pubsub.KeepAll}
	r, err := pubsub.NewReader(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	w, err := pubsub.NewWriter(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	if err := w.WaitMatched(ctx, 1); err != nil {
		log.Fatal(err)
	}
	_ = w.Write(ctx, Door{Number: 7, Open: true})
	_ = w.Dispose(ctx, Door{Number: 7})
	if err := w.WaitAcked(ctx); err != nil {
		log.Fatal(err)
	}
	for _, s := range r.Take(10) {
		if s.Info.Valid {
			fmt.Println("door", s.Data.Number, "open:", s.Data.Open)
		} else {
			fmt.Println("door", s.Info.Key, "is", s.Info.State)
		}
	}
	// Output:
	// door 7 open: true
	// door 7 is disposed
}

// Of two controllers of a pump the stronger is heard, until it gives the pump up.
func Example_exclusive() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "plant")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	type Setpoint struct {
		Pump  string `pubsub:"key"`
		Litre float64
	}
	topic, err := pubsub.NewTopic[Setpoint](p, "setpoints")
	if err != nil {
		log.Fatal(err)
	}
	qos := pubsub.QoS{Reliability: pubsub.Reliable, History: pubsub.KeepAll, Exclusive: true}
	r, err := pubsub.NewReader(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	qos.Strength = 10
	primary, err := pubsub.NewWriter(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	qos.Strength = 5
	backup, err := pubsub.NewWriter(ctx, topic, pubsub.WithQoS(qos))
	if err != nil {
		log.Fatal(err)
	}
	say := func(w *pubsub.Writer[Setpoint], litre float64) {
		_ = w.WaitMatched(ctx, 1)
		_ = w.Write(ctx, Setpoint{Pump: "p1", Litre: litre})
		if err := w.WaitAcked(ctx); err != nil {
			log.Fatal(err)
		}
	}
	say(primary, 1)
	say(backup, 2)
	if err := primary.Unregister(ctx, Setpoint{Pump: "p1"}); err != nil {
		log.Fatal(err)
	}
	if err := primary.WaitAcked(ctx); err != nil {
		log.Fatal(err)
	}
	say(backup, 3)
	for _, s := range r.Take(10) {
		fmt.Println(s.Data.Pump, "is set to", s.Data.Litre)
	}
	// Output:
	// p1 is set to 1
	// p1 is set to 3
}

// A topic belongs to a type and a name; its key fields tell instances apart.
func ExampleNewTopic() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "thermometer")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	type Reading struct {
		Room    string `pubsub:"key"` // one instance for each room
		Celsius float64
	}
	_, err = pubsub.NewTopic[Reading](p, "temperature", pubsub.WithTopicData(map[string]string{"unit": "°C"}))
	fmt.Println(err)
	_, err = pubsub.NewTopic[Reading](p, "")
	fmt.Println(errors.Is(err, pubsub.ErrInvalid))
	// Output:
	// <nil>
	// true
}

// What a broker can do is found out by trying.
func ExampleProbe() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()

	found, err := pubsub.Probe(ctx, url, "probe")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Retained, found.RetainedWildcards, found.Largest)
	// Output: true true 1000000
}

// What something may be called whose name is a level of topics.
func ExampleCheckName() {
	for _, name := range []string{"crane 7/hook", "+", ""} {
		fmt.Println(pubsub.CheckName(name))
	}
	// Output:
	// <nil>
	// pubsub: invalid argument: "+" is a wildcard of MQTT, not a name
	// pubsub: invalid argument: a name is empty, give 1 to 128 bytes
}

// A name becomes one level of a topic, whatever is in it.
func ExampleEncodeLevel() {
	level, err := pubsub.EncodeLevel("crane 7/hook")
	fmt.Println(level, err)
	_, err = pubsub.EncodeLevel("")
	fmt.Println(errors.Is(err, pubsub.ErrInvalid))
	// Output:
	// crane%207%2Fhook <nil>
	// true
}

func ExampleDecodeLevel() {
	fmt.Println(pubsub.DecodeLevel("crane%207%2Fhook"))
	// Output: crane 7/hook <nil>
}

// A bridge writes thousands of small values a second: they go together.
func ExampleWithCoalescing() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "bridge")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	type Tag struct {
		Name  string `pubsub:"key"`
		Value float64
	}
	topic, err := pubsub.NewTopic[Tag](p, "tags")
	if err != nil {
		log.Fatal(err)
	}
	qos := pubsub.WithQoS(pubsub.QoS{Reliability: pubsub.Reliable, History: pubsub.KeepAll})
	r, err := pubsub.NewReader(ctx, topic, qos)
	if err != nil {
		log.Fatal(err)
	}
	w, err := pubsub.NewWriter(ctx, topic, qos, pubsub.WithCoalescing(5*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	if err := w.WaitMatched(ctx, 1); err != nil {
		log.Fatal(err)
	}
	for i := range 3000 {
		if err := w.Write(ctx, Tag{fmt.Sprintf("motor%d", i%3), float64(i)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.WaitAcked(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(r.Take(3000)), "values arrived")
	// Output: 3000 values arrived
}

// A program that carries somebody else's MQTT, as a bridge for web pages does, needs
// only the stream: here it asks for a session by hand.
func ExampleDialBroker() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()

	stream, err := pubsub.DialBroker(ctx, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.Write([]byte("\x10\x0e\x00\x04MQTT\x04\x02\x00\x0a\x00\x02by")); err != nil { // CONNECT as "by"
		log.Fatal(err)
	}
	answer := make([]byte, 4)
	_, err = io.ReadFull(stream, answer)
	fmt.Printf("%x %v\n", answer, err) // CONNACK: accepted
	// Output: 20020000 <nil>
}

// A program that knows nothing of this package writes, and this one reads.
func ExampleConnectPlain() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	c, err := pubsub.ConnectPlain(ctx, url, "panel")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close(ctx)

	heard := make(chan pubsub.PlainMessage, 1)
	if _, err := c.Subscribe(ctx, "sensors/+/celsius", func(m pubsub.PlainMessage) { heard <- m }); err != nil {
		log.Fatal(err)
	}
	if err := c.Publish(ctx, "sensors/roof/celsius", []byte("21.5"), 1, false); err != nil {
		log.Fatal(err)
	}
	m := <-heard
	fmt.Printf("%s: %s\n", m.Topic, m.Payload)
	// Output: sensors/roof/celsius: 21.5
}

// Which names stand for several topics in ObserveSamples.
func ExampleHasWildcard() {
	for _, topic := range []string{"home/+/celsius", "home/#", "home/roof", "c#"} {
		fmt.Println(topic, pubsub.HasWildcard(topic))
	}
	// Output:
	// home/+/celsius true
	// home/# true
	// home/roof false
	// c# false
}

// A burst of short messages to one participant goes out as one.
func ExampleParticipant_Together() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	url, stop := exampleBroker(ctx)
	defer stop()
	p, err := pubsub.Join(ctx, url, "robot")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close(ctx)

	steps := make(chan string, 3)
	if _, err := p.Inbox("steps", func(m pubsub.Message) { steps <- string(m.Payload) }); err != nil {
		log.Fatal(err)
	}
	p.Together(func() {
		for _, step := range []string{"left", "right", "stop"} {
			if err := p.Post("robot", "steps", []byte(step)); err != nil {
				log.Fatal(err)
			}
		}
	})
	fmt.Println(<-steps, <-steps, <-steps)
	// Output: left right stop
}
