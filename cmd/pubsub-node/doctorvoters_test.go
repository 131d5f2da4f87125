package main

import (
	"strings"
	"testing"
	"time"

	"padme/qosmutex"
	"padme/qosmutex/register/quorum"
)

// What a write takes is that of the quickest majority, and decides which leases work.
func TestDoctorMeasuresTheVoters(t *testing.T) {
	members := []quorum.Member{{ID: "v1", Instance: 1}, {ID: "v2", Instance: 2}, {ID: "v3", Instance: 3}}
	seen := &survey{reports: map[string]quorum.Report{}, trips: map[string]time.Duration{}}
	answer := func(i int, trip time.Duration, sync float64) {
		m := members[i]
		seen.reports[m.ID] = quorum.Report{ID: m.ID, Instance: m.Instance, Phase: "voting", Config: 1, Domain: "d", Voters: members, Sync: sync}
		seen.trips[m.ID] = trip
	}
	answer(0, 10*time.Millisecond, 0.005)
	if _, ok := seen.writeTakes(); ok {
		t.Error("one of three is no majority")
	}
	answer(1, 20*time.Millisecond, 0.010)
	answer(2, time.Second, 1)
	need, ok := seen.writeTakes()
	if !ok || need != 50*time.Millisecond {
		t.Errorf("a write takes %v", need)
	}
	for ttl, want := range map[float64]string{0.19: resultBad, 0.3: resultNote, 0.9: resultOK} {
		found := examineVoters(seen, []qosmutex.View{{Topic: "crane", TTL: ttl}})
		if len(found) != 2 || found[0].Result != resultOK || found[1].Check != "lease" || found[1].Result != want {
			t.Errorf("a time-to-live of %v s: %+v, want %s", ttl, found, want)
		}
		if want != resultOK && !strings.Contains(found[1].Detail, "time-to-live of") {
			t.Errorf("no remedy: %s", found[1].Detail)
		}
	}
	delete(seen.reports, "v3")
	found := examineVoters(seen, nil)
	if len(found) != 2 || found[0].Result != resultBad || found[1].Detail != "v3 missing: no answer: is it running, and can it reach the broker?" {
		t.Errorf("%+v", found)
	}
}

// A voter that votes, and whose file has vanished, is not fine.
func TestDoctorFindsAVanishedFile(t *testing.T) {
	member := quorum.Member{ID: "v1", Instance: 1}
	seen := &survey{trips: map[string]time.Duration{}, reports: map[string]quorum.Report{"v1": {
		ID: "v1", Instance: 1, Phase: "voting", Config: 1, Domain: "d", Voters: []quorum.Member{member}, Vanished: "/data/voter was removed: put it back",
	}}}
	if found := examineVoters(seen, nil); len(found) != 2 || found[0].Result != resultBad || found[1].Detail != "v1 votes: /data/voter was removed: put it back" {
		t.Errorf("%+v", found)
	}
}
