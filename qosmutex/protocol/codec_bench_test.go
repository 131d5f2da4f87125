package protocol

import "testing"

func TestSteadyStateAllocatesNothing(t *testing.T) {
	var d Decoder
	var got Message
	buf := make([]byte, 0, 4096)
	for k := KindNone + 1; k < kindEnd; k++ {
		m := full(k)
		if n := testing.AllocsPerRun(100, func() { buf = AppendMessage(buf[:0], &m) }); n != 0 {
			t.Errorf("%v: encoding allocates %v times", k, n)
		}
		if n := testing.AllocsPerRun(100, func() {
			if err := d.Decode(buf, &got); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: decoding allocates %v times", k, n)
		}
	}
}

func benchmarkKinds(b *testing.B, run func(b *testing.B, m *Message)) {
	for _, k := range []Kind{KindRequest, KindReply, KindRelease, KindBeat, KindBeacon, KindHandover} {
		m := full(k)
		b.Run(k.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(AppendMessage(nil, &m))))
			run(b, &m)
		})
	}
}

func BenchmarkAppendMessage(b *testing.B) {
	benchmarkKinds(b, func(b *testing.B, m *Message) {
		var buf []byte
		for b.Loop() {
			buf = AppendMessage(buf[:0], m)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	benchmarkKinds(b, func(b *testing.B, m *Message) {
		buf := AppendMessage(nil, m)
		var d Decoder
		var got Message
		for b.Loop() {
			if err := d.Decode(buf, &got); err != nil {
				b.Fatal(err)
			}
		}
	})
}
