package observer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// old is left over from a run with other frequencies.
const old = `{"topic":"frequencies","resource":"446.000","fence":"3","epoch":"1.a"}`

const state = `{"topic":"frequencies","resource":"146.520","fence":"7","epoch":"1.a"}`

// published sets up a broker with the retained states of two frequencies.
func published(t *testing.T) (url string, p *pubsub.Participant) {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	p, err = pubsub.Join(t.Context(), b.URL(), "publisher-of-a-test", pubsub.WithDomain(scenario.Domain))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	for frequency, payload := range map[string]string{"446.000": old, "146.520": state} {
		if err := p.PublishRaw(pubsub.Main, []string{"lock", scenario.LockTopic, frequency, "state"}, []byte(payload), true); err != nil {
			t.Fatal(err)
		}
	}
	return b.URL(), p
}

// What is wrong here was never made by the lock, but is published all the same:
// the observer believes nobody.
func TestObserverSeesWhatIsPublished(t *testing.T) {
	url, p := published(t)
	o, err := observer.Start(t.Context(), url, []string{"146.520"})
	if err != nil {
		t.Fatal(err)
	}
	if s := o.States(); len(s) != 1 || s[0].Fence != "7" {
		t.Errorf("states %+v", s)
	}
	lines := strings.Join([]string{
		`{"event":"requested","topic":"frequencies","resource":"*","participant":"robot-1","request":"robot-1/1","priority":4,"at":"2030-01-01T00:00:00Z"}`,
		`{"event":"granted","topic":"frequencies","resource":"146.520","participant":"robot-1","request":"robot-1/1","priority":4,"fence":"8","at":"2030-01-01T00:00:01Z","waited":1}`,
		`this is no event`,
		`{"event":"granted","topic":"frequencies","resource":"146.520","participant":"robot-2","request":"robot-2/1","priority":4,"fence":"9","at":"2030-01-01T00:00:02Z"}`,
		`{"event":"released","topic":"frequencies","resource":"146.520","participant":"robot-1","request":"robot-1/1","priority":4,"fence":"8","at":"2030-01-01T00:00:03Z","held":2}`,
		`{"event":"released","topic":"frequencies","resource":"146.520","participant":"robot-2","request":"robot-2/1","priority":4,"fence":"9","at":"2030-01-01T00:00:04Z","held":2}`,
	}, "\n")
	if err := p.PublishRaw(pubsub.Side, []string{"lock", scenario.LockTopic, "events"}, []byte(lines), false); err != nil {
		t.Fatal(err)
	}
	w, err := camera.NewWriter(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WaitMatched(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, fence := range []uint64{9, 8} {
		if err := w.Write(t.Context(), camera.Frame{Frequency: "146.520", Fence: fence}); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.Settle(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	want := observer.Overlaps{Intervals: 1, Frames: 1}
	for deadline := time.Now().Add(5 * time.Second); o.Report(time.Now()).Overlaps != want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v, want %+v", o.Report(time.Now()).Overlaps, want)
		}
	}
	if err := o.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Models are in force once a view of this run says so, whoever has chosen them.
func TestObserverKnowsTheModelsInForce(t *testing.T) {
	url, p := published(t)
	view := []string{"lock", scenario.LockTopic, "view"}
	there := make(chan struct{}, 3) // as many views are published here
	stop, err := p.SubscribeRaw(t.Context(), pubsub.Main, view, func(pubsub.RawMessage) { there <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := p.PublishRaw(pubsub.Main, view, []byte(`{"models":"of an earlier run","root":"r"}`), true); err != nil {
		t.Fatal(err)
	}
	<-there // the broker has it: what comes to those who subscribe from now on is retained
	o, err := observer.Start(t.Context(), url, []string{"146.520"})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close(context.Background())
	await := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	await("the retained view does not come", func() bool { return o.Root() == "r" })
	if models := o.InForce(); models != "" {
		t.Errorf("%q", models)
	}
	for _, models := range []string{"fair-forward-forward-retain", "level-forward-forward-forward"} {
		if err := p.PublishRaw(pubsub.Main, view, []byte(`{"models":"`+models+`","root":"r"}`), true); err != nil {
			t.Fatal(err)
		}
		await(models+" are not in force", func() bool { return o.InForce() == models })
	}
}

func TestObserverOfNothingSaysWhatItMisses(t *testing.T) {
	url, _ := published(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := observer.Start(ctx, url, []string{"146.520", "2.000"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `"146.520" "2.000"`) {
		t.Fatalf("%v", err)
	}
}
