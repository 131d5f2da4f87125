package padme

import (
	"fmt"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

// TestSeekersCostNoMoreThanMembers: a member whose heartbeats the root does not answer, as it is
// too busy, looks for a place although others offer one. What everybody hears of that is not
// more than what a member costs that has its place, or many who look would keep the root
// busy. Once it answers, they have a place soon.
func TestSeekersCostNoMoreThanMembers(t *testing.T) {
	const seekers, members = 6, 24
	names := strings.Fields("B C D E F G H I J K L M N O P Q R S T U V W X")
	w := newWorld()
	w.quiet = true
	play(t, w, "grow A "+strings.Join(names, " ")+" models=level-forward-forward-forward fanout=40", "advance 2s")
	for _, name := range names[len(names)-seekers:] {
		w.held[[2]string{name, "A"}] = true
	}
	play(t, w, "advance 6s")
	before := w.joins
	const measured = 4
	play(t, w, "advance 4s")
	joins := float64(w.joins-before) / seekers / measured
	healthy := 4 * float64(protocol.Second) / float64(protocol.LAN().Heartbeat) // heartbeats and beacons, each with its answer
	if heard := joins * members; heard > 1.5*healthy {
		t.Errorf("each seeker makes others hear %.1f messages a second, and a member costs %.1f", heard, healthy)
	}
	for _, name := range names[len(names)-seekers:] {
		play(t, w, "resume "+name+" A")
	}
	play(t, w, "advance 10s")
	for _, name := range names {
		if role, _ := w.nodes[name].machine.Term(); role != protocol.Member {
			t.Errorf("%s is %v 10 s after the root began to answer", name, role)
		}
	}
	w.sound(t)
}

// TestSeekersAskSoonOnceTheRootAnswers: all members are cut off from the root, and nobody tells them
// when that ends. They have a place soon after, however many they are.
func TestSeekersAskSoonOnceTheRootAnswers(t *testing.T) {
	w := newWorld()
	w.quiet, w.fanout = true, 8
	w.add("A", 0, "", true)
	for i := range 40 {
		w.add(fmt.Sprintf("m%02d", i), int64(1+i%3), "", false)
		w.advance(50*ms, true)
	}
	for _, cut := range []bool{true, false} {
		for name, n := range w.nodes {
			n.offline = cut && name != "A"
		}
		play(t, w, map[bool]string{true: "advance 12s", false: "advance 4s"}[cut])
	}
	for _, name := range w.order[1:] {
		if role, _ := w.nodes[name].machine.Term(); role != protocol.Member {
			t.Errorf("%s is %v after the root has answered for 4 s", name, role)
		}
	}
}
