package wire

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// What is wrapped where it is reads as what is copied.
func TestWrapIsAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Envelope{
			Kind: KindSample, Epoch: rapid.Uint64().Draw(t, "epoch"), Seq: rapid.Uint64().Draw(t, "seq"),
			Nanos: rapid.Uint64().Draw(t, "nanos"), Schema: rapid.Uint64().Draw(t, "schema"),
			Options: Options{
				Status: Status(rapid.IntRange(0, 2).Draw(t, "status")), Lifespan: rapid.Uint64().Draw(t, "lifespan"),
				Previous: rapid.Uint64().Draw(t, "previous"), Key: rapid.SliceOfN(rapid.Byte(), 0, 2*room).Draw(t, "key"),
			},
		}
		var b Buffer
		b.Reset()
		b.Write(bytes.Repeat([]byte{7}, rapid.SampledFrom([]int{0, 1, 255, 256, 65535, 65536, 100000}).Draw(t, "size")))
		e.Body = b.Body()
		want := Append(nil, &e)
		got, ok := b.Wrap(&e)
		if ok != (len(want)-len(e.Body) <= room) {
			t.Fatalf("%d bytes before the body: %v", len(want)-len(e.Body), ok)
		}
		if ok && !bytes.Equal(got, want) {
			t.Fatalf("%x\nwant\n%x", got, want)
		}
		if again, _ := b.Wrap(&e); ok && !bytes.Equal(again, want) {
			t.Fatal("the second time it is another")
		}
		if want := Append(nil, &e); !bytes.HasSuffix(want, b.Body()) {
			t.Fatal("the body has changed")
		}
	})
}
