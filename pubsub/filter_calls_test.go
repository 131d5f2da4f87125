package pubsub

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"padme/tests/brokers"
	"padme/tests/poll"
)

// These tests run in real time: a goroutine that waits for a mutex stops virtual time.

// The filter is the user's code, so it may call anything that does not wait.
func TestAFilterMayCallItsReader(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
	var r atomic.Pointer[Reader[pose]]
	taken := make(chan float64, 10)
	r.Store(newReader(t, topicOf[pose](t, b, "p"), WithQoS(keepAll), WithFilter(func(pose) bool {
		me := r.Load()
		me.Read(1)
		for _, s := range me.Take(10) {
			taken <- s.Data.X
		}
		if err := me.WaitMatched(context.Background(), 1); err != nil && !errors.Is(err, ErrClosed) { // the test may be over
			t.Error(err)
		}
		return true
	})))
	awaitReaders(t, w, 1)
	write(t, w, poseOf("r", 1))
	if err := w.WaitAcked(testContext(t)); err != nil {
		t.Fatal(err)
	}
	write(t, w, poseOf("r", 2))
	if got := receive(t, taken, "a sample taken by the filter"); got != 1 {
		t.Errorf("took %v", got)
	}
}

func TestAFilterMayCloseItsReader(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
	var r atomic.Pointer[Reader[pose]]
	closed := make(chan struct{})
	r.Store(newReader(t, topicOf[pose](t, b, "p"), WithQoS(keepAll), WithFilter(func(pose) bool {
		r.Load().Close()
		close(closed)
		return true
	})))
	awaitReaders(t, w, 1)
	write(t, w, poseOf("r", 1))
	receive(t, closed, "the end of the reader")
}

// What the dead left comes while the reader is made.
func TestAFilterOfRetainedSamplesMayCallItsParticipant(t *testing.T) {
	url := brokers.UseExcept(t, brokers.RabbitMQ, "RabbitMQ returns no retained message for a wildcard, which transient readers need")
	a, b := join(t, url, "a"), join(t, url, "b")
	w := writerOf(t, topicOf[pose](t, a, "p"), transient)
	write(t, w, poseOf("r", 1))
	if err := w.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	other := newReader(t, topicOf[pose](t, b, "other"))
	asked := make(chan struct{}, 10)
	r := newReader(t, topicOf[pose](t, b, "p"), WithQoS(transient), WithFilter(func(pose) bool {
		other.Close()
		asked <- struct{}{}
		return true
	}))
	receive(t, asked, "the retained sample")
	poll.Until(t, "the retained sample is there", func() bool { return len(r.Read(1)) == 1 })
}

// decoded is a type whose decoder, which a filter needs, is the user's code.
type decoded struct{ X int }

var whenDecoded atomic.Pointer[func()]

func (d *decoded) DecodeMsgpack(dec *msgpack.Decoder) (err error) {
	if f := whenDecoded.Load(); f != nil {
		(*f)()
	}
	d.X, err = dec.DecodeInt()
	return err
}

func (d decoded) EncodeMsgpack(enc *msgpack.Encoder) error { return enc.EncodeInt(int64(d.X)) }

func TestADecoderMayCallTheReaderThatFilters(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	w := writerOf(t, topicOf[decoded](t, a, "p"), keepAll)
	r := newReader(t, topicOf[decoded](t, b, "p"), WithQoS(keepAll), WithFilter(func(decoded) bool { return true }))
	called := make(chan struct{}, 10)
	f := func() {
		r.recv.Matches()
		called <- struct{}{}
	}
	whenDecoded.Store(&f)
	defer whenDecoded.Store(nil)
	awaitReaders(t, w, 1)
	write(t, w, decoded{1})
	receive(t, called, "the decoder")
	poll.Until(t, "the sample is there", func() bool { return len(r.Read(1)) == 1 })
}
