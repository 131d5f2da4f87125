package connection

import (
	"strings"
	"testing"
)

// putOn puts a payload that may join others on its topic, or must go alone.
func putOn(t *testing.T, f *Queue, topic, payload string, joins bool) {
	t.Helper()
	if err := f.Put(Packet{Topic: topic, Payload: []byte(payload), Joins: joins}); err != nil {
		t.Fatal(err)
	}
}

// taken is what a queue lets go of now.
func taken(f *Queue) string {
	var all []string
	for {
		p, _, ok := f.Take(false)
		if !ok {
			return strings.Join(all, " ")
		}
		all = append(all, p.Topic+":"+string(p.Payload))
	}
}

func goesOut(t *testing.T, f *Queue, want string) {
	t.Helper()
	if got := taken(f); got != want {
		t.Errorf("%q goes out, want %q", got, want)
	}
}

// TestHeldMessagesJoin: what is put while somebody holds goes out when it lets go, as one
// message of each topic, in the order of each.
func TestHeldMessagesJoin(t *testing.T) {
	f := NewQueue()
	f.Open()
	putOn(t, f, "a", "0", true)
	f.Hold()
	putOn(t, f, "a", "1", true) // the one before was not held
	putOn(t, f, "b", "2", true)
	putOn(t, f, "a", "3", true)
	putOn(t, f, "b", "4", false)
	putOn(t, f, "b", "5", true) // not before the one that goes alone
	putOn(t, f, "b", "6", true)
	goesOut(t, f, "a:0")
	f.Release()
	goesOut(t, f, "a:13 b:2 b:4 b:56")
	putOn(t, f, "a", "7", true)
	putOn(t, f, "a", "8", true)
	goesOut(t, f, "a:7 a:8")
}

// TestOverlappingHolds: one that goes on keeps nothing that was put before another ended.
func TestOverlappingHolds(t *testing.T) {
	f := NewQueue()
	f.Open()
	f.Hold()
	putOn(t, f, "a", "1", true)
	f.Hold()
	putOn(t, f, "a", "2", true)
	f.Release()
	putOn(t, f, "a", "3", true)
	goesOut(t, f, "a:12")
	f.Release()
	goesOut(t, f, "a:3")
}

// TestJoinedMessagesAreBounded: no message grows beyond what a broker takes.
func TestJoinedMessagesAreBounded(t *testing.T) {
	f := NewQueue()
	f.Open()
	f.Hold()
	half := strings.Repeat("x", MaxJoined/2)
	for range 3 {
		putOn(t, f, "a", half, true)
	}
	f.Release()
	goesOut(t, f, "a:"+half+half+" a:"+half)
}
