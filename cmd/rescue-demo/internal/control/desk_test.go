package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/control"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func join(t *testing.T, url, id string) *pubsub.Participant {
	t.Helper()
	p, err := pubsub.Join(t.Context(), url, id, pubsub.WithDomain(scenario.Domain))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	return p
}

// A flood of what is not sealed does not keep out what is, even while the desk is busy.
func TestFloodDoesNotKeepCommandsOut(t *testing.T) {
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	cfg := scenario.Default()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	key, client := control.NewKey(), join(t, b.URL(), "somebody")
	publish := func(text []byte) {
		if err := client.PublishRaw(pubsub.Main, control.RequestTopic, text, false); err != nil {
			t.Fatal(err)
		}
	}
	command := func(id string) []byte {
		return key.Seal(control.Command{ID: id, At: time.Now().UnixMilli(), Do: control.KillRoot})
	}
	begun, goOn, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := join(t, b.URL(), "desk")
	desk, err := control.Open(t.Context(), p, key, cfg, func(_ context.Context, c control.Command) error {
		if c.ID == "second-1" {
			close(second)
			return nil
		}
		close(begun)
		<-goOn
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(desk.Close)
	publish(command("first-01"))
	<-begun
	heard := make(chan struct{}, 200) // by the desk, too
	if _, err := p.SubscribeRaw(t.Context(), pubsub.Main, control.RequestTopic, func(pubsub.RawMessage) { heard <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for range 150 {
		publish([]byte("nonsense"))
	}
	publish(command("second-1"))
	for range 151 {
		<-heard
	}
	close(goOn)
	select {
	case <-second:
	case <-time.After(15 * time.Second):
		t.Error("a command was lost among what is none")
	}
}

// Any client may speak to the desk; it does what it is told by those with the key,
// and answers everybody.
func TestDeskDoesWhatItIsToldAndAnswers(t *testing.T) {
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	cfg := scenario.Default()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	key, done := control.NewKey(), make(chan control.Command, 10)
	client := join(t, b.URL(), "somebody")
	publish := func(text []byte, retain bool) {
		if err := client.PublishRaw(pubsub.Side, control.RequestTopic, text, retain); err != nil {
			t.Fatal(err)
		}
	}
	command := func(id string, do control.Action) []byte {
		return key.Seal(control.Command{ID: id, At: time.Now().UnixMilli(), Do: do, Robot: "robot-1"})
	}
	answers := make(chan control.Answer, 10)
	if _, err := client.SubscribeRaw(t.Context(), pubsub.Main, control.AnswerTopic, func(m pubsub.RawMessage) {
		var a control.Answer
		if json.Unmarshal(m.Payload, &a) == nil {
			answers <- a
		}
	}); err != nil {
		t.Fatal(err)
	}
	// What somebody left at the broker is no command.
	arrived := make(chan struct{}, 20)
	if _, err := client.SubscribeRaw(t.Context(), pubsub.Main, control.RequestTopic, func(pubsub.RawMessage) { arrived <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	publish(command("retained", control.Kill), true)
	<-arrived
	desk, err := control.Open(t.Context(), join(t, b.URL(), "desk"), key, cfg, func(_ context.Context, c control.Command) error {
		done <- c
		if c.Do == control.Kill {
			return errors.New("it is dead already")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(desk.Close)
	publish([]byte("nonsense"), false)
	publish([]byte(`{"body":"`+strings.Repeat("x", 100_000)+`"}`), false)
	publish(control.NewKey().Seal(control.Command{ID: "forged-1", At: time.Now().UnixMilli(), Do: control.KillRoot}), false)
	publish(command("paused-1", control.Pause), false)
	publish(command("killed-1", control.Kill), false)
	for _, want := range []control.Answer{
		{Error: "no sealed command"},
		{Error: "too many"},
		{Error: "not sealed with the key"},
		{ID: "paused-1", OK: true},
		{ID: "killed-1", Error: "it is dead already"},
	} {
		select {
		case a := <-answers:
			if a.ID != want.ID || a.OK != want.OK || !strings.Contains(a.Error, want.Error) {
				t.Errorf("answered %+v, want %+v", a, want)
			}
		case <-time.After(15 * time.Second):
			t.Fatalf("no answer, want %+v", want)
		}
	}
	if len(done) != 2 || (<-done).ID != "paused-1" || (<-done).ID != "killed-1" {
		t.Error("something else was done than what was sealed")
	}
}
