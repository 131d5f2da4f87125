package pubsub

import (
	"encoding/json"
	"testing"
	"time"
)

// Who knows MQTT and JSON can read a sample of a JSON topic.
func TestAJSONSampleIsAJSONObject(t *testing.T) {
	virtually(t, func(t *testing.T, d *world) {
		a, c := d.join("a"), d.join("c")
		seen := make(chan RawMessage, 2)
		stop, err := c.SubscribeRaw(testContext(t), Main, []string{"data", "#"}, func(m RawMessage) { seen <- m })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		w := writerOf(t, topicOf[pose](t, a, "p", WithCodec(JSON)), QoS{})
		pass(time.Second)
		write(t, w, pose{Robot: "r", X: 1})
		var got struct {
			V    int
			Seq  string
			Data pose
		}
		if m := <-seen; json.Unmarshal(m.Payload, &got) != nil || got.V != 1 || got.Seq != "1" || got.Data.Robot != "r" || got.Data.X != 1 {
			t.Errorf("%s is %+v", m.Payload, got)
		}
		if err := w.Dispose(testContext(t), pose{Robot: "r"}); err != nil {
			t.Fatal(err)
		}
		var end struct{ Kind string }
		if m := <-seen; json.Unmarshal(m.Payload, &end) != nil || end.Kind != "disposed" {
			t.Errorf("%s is %+v", m.Payload, end)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x81, 0xa1, 'x', 0x91, 0xc0})
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}) // an array of four thousand million
	f.Fuzz(func(_ *testing.T, b []byte) {
		var v any // must neither panic nor allocate beyond reason
		_ = Msgpack.decode(b, &v)
	})
}
