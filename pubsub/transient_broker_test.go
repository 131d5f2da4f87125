package pubsub

import (
	"testing"

	"padme/tests/brokers"
)

// What transient_test.go has in virtual time, at the chosen broker: it keeps the last
// value of an instance for the reader that comes after the writer's end, and not one
// that was disposed.
func TestTheBrokerKeepsTheLastValueOfAWriterThatIsGone(t *testing.T) {
	url := brokers.UseExcept(t, brokers.RabbitMQ, "RabbitMQ returns no retained message for a wildcard, which transient readers need")
	a, b, c := join(t, url, "a"), join(t, url, "b"), join(t, url, "c")
	w := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
	for i := range 3 {
		write(t, w, poseOf("r1", float64(i)))
		write(t, w, poseOf("r2", float64(10+i)))
	}
	if err := w.Dispose(testContext(t), poseOf("r2", 0)); err != nil {
		t.Fatal(err)
	}
	closeNow(t, a)
	late := readerOf(t, topicOf[pose](t, b, "p"), transient)
	live := writerOf(t, topicOf[pose](t, c, "p"), transientDepth(1))
	write(t, live, poseOf("r3", 20))
	got := map[float64]InstanceState{}
	for _, s := range collect(t, late, 2) {
		got[s.Data.X] = s.Info.State
	}
	if got[2] != NoWriters || got[20] != Alive || len(got) != 2 {
		t.Errorf("got %v, want the last of r1, without writers, and what is written now", got)
	}
}

// And not one that the next version of a program disposes of, which makes another writer first.
func TestTheBrokerForgetsWhatAnEarlierIncarnationLeft(t *testing.T) {
	url := brokers.UseExcept(t, brokers.RabbitMQ, "RabbitMQ returns no retained message for a wildcard, which transient readers need")
	a := join(t, url, "a")
	w := writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
	write(t, w, poseOf("r1", 1))
	write(t, w, poseOf("r2", 2))
	closeNow(t, a)
	a = join(t, url, "a")
	writerOf(t, topicOf[pose](t, a, "another"), transient)
	w = writerOf(t, topicOf[pose](t, a, "p"), transientDepth(1))
	if err := w.Dispose(testContext(t), poseOf("r1", 0)); err != nil {
		t.Fatal(err)
	}
	closeNow(t, a)
	late := readerOf(t, topicOf[pose](t, join(t, url, "b"), "p"), transient)
	if err := late.WaitForHistoricalData(testContext(t)); err != nil {
		t.Fatal(err)
	}
	expectXs(t, "what is left", late, 2)
}
