package web_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"reflect"
	"testing"
	"time"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/camera"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/tests/process"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The page decodes what a robot's writer really puts on a frequency.
func TestThePageReadsFramesFromTheWire(t *testing.T) {
	node := process.Need(t, "apt-get install nodejs", "node")
	payload := onTheWire(t, camera.Frame{
		Frequency: "146.520", Robot: "robot-3", Fence: 1<<53 + 1, Number: 4, Survivors: 2, Picture: []byte{1, 2, 3},
	})
	t.Log(hex.EncodeToString(payload))
	cmd := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", `
		import { readFrame } from "./page/frame.js";
		const f = readFrame(Uint8Array.from(Buffer.from(process.argv[1], "hex")));
		console.log(JSON.stringify({ ...f, picture: [...f.picture] }));`, hex.EncodeToString(payload))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got struct {
		Frequency, Robot, Fence string
		Number, Survivors       int
		Picture                 []int
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Frequency != "146.520" || got.Robot != "robot-3" || got.Fence != "9007199254740993" || got.Number != 4 || got.Survivors != 2 || len(got.Picture) != 3 {
		t.Errorf("%s", out)
	}
}

// onTheWire returns the MQTT payload of a frame.
func onTheWire(t *testing.T, f camera.Frame) []byte {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	p, err := pubsub.Join(t.Context(), b.URL(), f.Robot, pubsub.WithDomain(scenario.Domain))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	heard := make(chan []byte, 10)
	if _, err := p.SubscribeRaw(t.Context(), pubsub.Main, []string{"data", "+", camera.Topic, "#"}, func(m pubsub.RawMessage) {
		heard <- append([]byte(nil), m.Payload...)
	}); err != nil {
		t.Fatal(err)
	}
	w, err := camera.NewWriter(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	select {
	case payload := <-heard:
		return payload
	case <-time.After(15 * time.Second):
		t.Fatal("nothing was published")
		return nil
	}
}

// The page offers the models that the operator's commands may name, no more and no less.
func TestThePageOffersAllModels(t *testing.T) {
	node := process.Need(t, "apt-get install nodejs", "node")
	out, err := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", `
		import { MODELS } from "./page/command.js";
		console.log(JSON.stringify(MODELS.map((m) => m.values)));`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := protocol.ModelNames()
	want[0] = want[0][:protocol.Fair+1] // the two that the demo compares
	var got [4][]string
	if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s, want %v: %v", out, want, err)
	}
}
