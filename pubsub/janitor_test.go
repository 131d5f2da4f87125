package pubsub

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// retainedBelow lists what a new participant finds retained on topics.
func retainedBelow(t *testing.T, p *Participant, levels ...string) (topics []string) {
	t.Helper()
	stop, err := p.SubscribeRaw(testContext(t), Main, levels, func(m RawMessage) {
		if m.Retained && len(m.Payload) > 0 {
			topics = append(topics, strings.Join(m.Levels, "/")+" "+string(m.Payload))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	settle(time.Second)
	stop()
	return topics
}

// The embedded broker clears what the dead have left.
func TestCrashedParticipantsLeaveNothingForEver(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		here := d.join("here")
		r := readerOf(t, topicOf[pose](t, here, "p"), keepAll)
		count := func(when string, presences, endpoints int) {
			t.Helper()
			look := d.join(fmt.Sprint("look", time.Now().UnixNano()))
			if got := retainedBelow(t, look, "presence", "+"); len(got) != presences+1 {
				t.Errorf("%s presences are retained of %q, want %d beside the last", when, got, presences)
			}
			if got := retainedBelow(t, look, "ep", "+", "+", "+"); len(got) != endpoints {
				t.Errorf("%s announcements are retained of %q, want %d", when, got, endpoints)
			}
			closeNow(t, look)
		}
		var fuses []*fuse
		for i := range 30 {
			p, fuse := d.joinBy(fmt.Sprint("p", i))
			writerOf(t, topicOf[pose](t, p, "p"), keepAll)
			fuses = append(fuses, fuse)
		}
		back, cutOff := d.joinBy("back")
		w := writerOf(t, topicOf[pose](t, back, "p"), keepAll)
		awaitReaders(t, w, 1)
		for _, f := range append(fuses, cutOff) {
			f.blow(true)
		}
		settle(time.Minute)
		count("at first", 1+31, 1+31)
		settle(15 * time.Minute)
		count("after a quarter of an hour", 1, 1)
		if n, _ := here.directory.Known(); n != 1 { // itself
			t.Errorf("a reader remembers %d participants", n)
		}
		cutOff.blow(false)
		settle(time.Minute)
		count("with one that is back", 2, 2)
		late := readerOf(t, topicOf[pose](t, d.join("late"), "p"), keepAll)
		awaitReaders(t, w, 2)
		xs(r)
		write(t, w, poseOf("r", 1))
		settle(time.Second)
		expectXs(t, "who was there", r, 1)
		expectXs(t, "a late joiner", late, 1)
	})
}
