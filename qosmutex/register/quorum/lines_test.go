package quorum

import (
	"fmt"
	"testing"

	"padme/qosmutex/register/caspaxos"
)

// TestWhatWaitsIsBounded: in all, and so that whoever has little waiting gets in.
func TestWhatWaitsIsBounded(t *testing.T) {
	var all turns
	all.know([]string{"a"})
	message := caspaxos.AppendMessage(nil, &caspaxos.Message{Kind: caspaxos.KindRequest, Keys: make([]string, 200)})
	large := make([]byte, 1<<19)
	for i := range 200 {
		for range 3 {
			all.add(fmt.Sprint("mallory", i), large, 0)
		}
	}
	for i := range 5000 {
		all.add(fmt.Sprint("stranger", i), message, 0)
	}
	for range 10 {
		all.add("a", large, 0)
	}
	bytes := 0
	for _, l := range all.order {
		for _, w := range l.waiting {
			bytes += len(w.message) + overhead
		}
		if most := map[bool]int{true: maxVoterLine, false: maxLine}[l.from == "a"]; l.bytes > most {
			t.Errorf("%d bytes of %s wait", l.bytes, l.from)
		}
	}
	if len(all.lines["a"].waiting) < 7 {
		t.Errorf("%d messages of a voter wait", len(all.lines["a"].waiting))
	}
	if bytes != all.bytes || bytes > maxWaiting+maxVoterLine || len(all.lines) != len(all.order) || len(all.lines) > maxLines+1 {
		t.Errorf("%d bytes wait in %d lines, %d are counted in %d", bytes, len(all.lines), all.bytes, len(all.order))
	}
	for now := range caspaxos.Time(3) { // what is late is dropped, and then the lines are forgotten
		all.take(new(caspaxos.Machine), (now+1)*2*late, func(*caspaxos.Message) {})
	}
	if all.bytes != 0 || len(all.lines) != 0 || len(all.order) != 0 {
		t.Errorf("%d bytes are left in %d lines", all.bytes, len(all.lines))
	}
}

// TestANewcomerFindsRoom: where others fill what there is room for, the longest line gives way.
func TestANewcomerFindsRoom(t *testing.T) {
	var all turns
	for i := 0; all.bytes+maxLine < maxWaiting; i++ {
		for all.add(fmt.Sprint("mallory", i), make([]byte, 1<<16), 0) {
		}
	}
	for i := 0; all.bytes < maxWaiting-1000; i++ {
		all.add(fmt.Sprint("m", i), make([]byte, 500), 0)
	}
	for range 10 {
		if !all.add("alice", make([]byte, 1000), 0) {
			t.Fatal("alice finds no room")
		}
	}
	if all.bytes > maxWaiting {
		t.Errorf("%d bytes wait", all.bytes)
	}
}
