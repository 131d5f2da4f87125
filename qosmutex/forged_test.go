package qosmutex

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/tests/poll"
)

// A liar that may write on the topic's board says things in the root's name: its
// own words of before, its own name and epoch with another holder, another view.
// The root says again what is true.
func TestRootAnswersWhatIsSaidInItsName(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	root, members := group(t, url, "t", 1)
	p := join(t, url, "liar")
	states, views := subscribe(t, p, "lock", "t", "crane", "state"), subscribe(t, p, "lock", "t", "view")
	poll.Until(t, "the root follows its topic", func() bool {
		root.mu.Lock()
		defer root.mu.Unlock()
		return root.board.following
	})
	unlock(t, lock(t, root, "crane"))
	h := lock(t, members[0], "crane")
	last := func(m *messages) string {
		if all := m.now(); len(all) > 0 {
			return string(all[len(all)-1].Payload)
		}
		return ""
	}
	held := func() bool {
		var s State
		return json.Unmarshal([]byte(last(states)), &s) == nil && s.Holder == "a" && s.Fence == formatFence(h.Fence())
	}
	poll.Until(t, "the state names the holder", held)
	poll.Until(t, "a view of two members that changes no more", func() bool {
		return strings.Contains(last(views), `"members":2`) && !strings.Contains(last(views), `"grants_from"`)
	})
	root.mu.Lock()
	if n := root.metrics.dropped[dropForeign]; n > 0 {
		t.Errorf("%d of the root's own publications taken for lies", n)
	}
	root.mu.Unlock()
	truth, view := last(states), last(views)
	var lies []string
	for _, m := range states.now() {
		if string(m.Payload) != truth {
			lies = append(lies, string(m.Payload))
		}
	}
	lies = append(lies, strings.ReplaceAll(truth, `"holder":"a"`, `"holder":"liar"`))
	tell := func(payload string, levels ...string) {
		if err := p.PublishRaw(pubsub.Main, append([]string{"lock", "t"}, levels...), []byte(payload), true); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(m *messages, before int, right func() bool) func() bool {
		return func() bool { return len(m.now()) >= before+2 && right() }
	}
	for _, lie := range lies {
		before := len(states.now())
		tell(lie, "crane", "state")
		poll.Until(t, "an answer to "+lie, answered(states, before, held))
	}
	for _, lie := range []string{strings.Replace(view, `"root":"root"`, `"root":"liar"`, 1), "", "garbage"} {
		before := len(views.now())
		tell(lie, "view")
		poll.Until(t, "an answer to "+lie, answered(views, before, func() bool { return last(views) == view }))
	}

	// Of a later epoch it might be a successor's, until that is too long ago.
	future := protocol.Epoch{Number: 1 << 52, Tie: 1}.String()
	tell(`{"topic":"t","resource":"crane","holder":"liar","fence":"1","root":"liar","epoch":"`+future+`"}`, "crane", "state")
	tell(`{"topic":"t","root":"liar","epoch":"`+future+`"}`, "view")
	poll.Until(t, "the root to reclaim the board", func() bool { return held() && last(views) == view })

	// An event of the far future must not hide the entries to come.
	tell(fmt.Sprintf(`{"event":"granted","topic":"t","resource":"crane","participant":"liar","priority":1,"fence":"%d"}`, h.Fence()+1<<30), "events")
	unlock(t, h)
	h = lock(t, members[0], "crane")
	poll.Until(t, "the state names the next holder", held)
	poll.Until(t, "the lies are counted", func() bool {
		root.mu.Lock()
		defer root.mu.Unlock()
		return root.metrics.dropped[dropForeign] >= uint64(len(lies))+5
	})
	unlock(t, h)
}

// Its own publications come back to the root, however many are under way: they are
// no lies.
func TestEchoes(t *testing.T) {
	t.Parallel()
	var e echoes
	for i := range maxEchoes {
		e.note(fmt.Append(nil, i))
	}
	for i := range maxEchoes {
		if i%3 == 0 {
			continue // one that a broker dropped
		}
		if !e.heard(fmt.Append(nil, i)) {
			t.Errorf("publication %d is not known", i)
		}
		if i < maxEchoes-1 && e.heard(fmt.Append(nil, i)) {
			t.Errorf("publication %d is believed twice", i)
		}
	}
	for range 2 {
		if !e.heard(fmt.Append(nil, maxEchoes-1)) {
			t.Error("the latest is not known")
		}
	}
	if e.heard(nil) {
		t.Error("the cleared topic is believed")
	}
}

func TestWatchersForgetAnInventedEpoch(t *testing.T) {
	t.Parallel()
	r, at := terms{}, time.Now()
	for _, step := range []struct {
		after    time.Duration
		epoch    uint64
		credible bool
	}{
		{0, 5, true},
		{time.Second, 6, true},              // a successor
		{time.Second, 5, false},             // the former root
		{time.Minute, 6, true},              // however long it is silent
		{time.Second, 99, true},             // a lie
		{termsEnd - time.Second, 6, false},  // it might be true
		{time.Second, 6, true},              // no more
		{termsEnd / 2, 5, false},            // the former root still is
		{termsEnd/2 - time.Second, 6, true}, // and is so again
		{termsEnd - time.Second, 5, false},
	} {
		at = at.Add(step.after)
		if got := r.credible("t", protocol.Epoch{Number: step.epoch}, at); got != step.credible {
			t.Errorf("%+v: %v", step, got)
		}
	}
}

// Messages about resources that the topic does not have leave nothing behind.
func TestForeignResourcesAreNotKept(t *testing.T) {
	t.Parallel()
	url := startBroker(t, "127.0.0.1:0").URL()
	stranger := join(t, url, "b")
	from := protocol.Node{ID: "b", Incarnation: 7}
	topic, _ := group(t, url, "t", 0)
	const many = 100
	for i := range many {
		for _, kind := range []protocol.Kind{protocol.KindRequest, protocol.KindRelease} {
			m := protocol.Message{
				Kind: kind, From: from, To: topic.self, Seq: uint64(i) + 1, Link: 1, Clock: 5, Resource: fmt.Sprint("r", i),
				ID: protocol.RequestID{Node: from, Clock: 3},
			}
			if err := stranger.Send(topic.self.ID, topic.channel, protocol.AppendMessage(nil, &m)); err != nil {
				t.Fatal(err)
			}
		}
	}
	poll.Until(t, "all have come", func() bool {
		topic.mu.Lock()
		defer topic.mu.Unlock()
		return topic.metrics.received[protocol.KindRelease] == many
	})
	topic.mu.Lock()
	defer topic.mu.Unlock()
	if n := len(topic.board.resources); n > 2 {
		t.Errorf("%d states are kept for two resources", n)
	}
}
