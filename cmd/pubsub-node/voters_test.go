//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/register/quorum"
	"padme/tests/brokers"
	"padme/tests/extent"
	"padme/tests/poll"
)

// site is three voters at a broker, each with a directory of its own.
type site struct {
	t      *testing.T
	url    string
	dir    string
	voters map[string]*node
}

// start runs a gateway that is a voter.
func (s *site) start(id, list string) {
	s.voters[id] = startNode(s.t, s.dir, s.url, "serve", "crane", "--id", id, "--voters", list, "--data", id)
}

// kill ends a voter as kill -9 does, and returns its log.
func (s *site) kill(id string) string {
	s.t.Helper()
	n := s.voters[id]
	if err := n.Cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	n.exit(s.t)
	delete(s.voters, id)
	return n.Err.String()
}

// run runs a command to its end.
func (s *site) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	n := startNode(s.t, s.dir, s.url, args...)
	code = n.exit(s.t)
	return code, n.Out.String(), n.Err.String()
}

// states waits until `voters show` has these lines, "VOTER STATE" each.
func (s *site) states(want ...string) {
	s.t.Helper()
	var got []string
	poll.Until(s.t, "the voters are "+strings.Join(want, ", "), func() bool {
		code, stdout, stderr := s.run("voters", "show", "--json")
		got = nil
		fine := true
		for d := json.NewDecoder(strings.NewReader(stdout)); d.More(); {
			var l voterLine
			if err := d.Decode(&l); err != nil {
				s.t.Fatalf("%v: %s", err, stdout)
			}
			got = append(got, l.Voter+" "+l.State)
			fine = fine && l.fine()
		}
		if wanted := map[bool]int{true: 0, false: 1}[fine]; code != wanted {
			s.t.Fatalf("exit code %d, want %d: %s%s", code, wanted, stdout, stderr)
		}
		return slices.Equal(got, want)
	})
}

// lock takes the lock once, and returns its fence.
func (s *site) lock() string {
	s.t.Helper()
	code, stdout, stderr := s.run("lock", "crane", "--wait", "15s", "--", "sh", "-c", "echo $PADME_FENCE")
	if code != 0 {
		s.t.Fatalf("lock: exit code %d: %s", code, stderr)
	}
	return stdout
}

func (s *site) does(want int, says string, args ...string) {
	s.t.Helper()
	if code, stdout, stderr := s.run(args...); code != want || !strings.Contains(stdout+stderr, says) {
		s.t.Errorf("%v: exit code %d, want %d and %q: %s%s", args, code, want, says, stdout, stderr)
	}
}

// TestVoters is what an operator lives through, on two brokers: a voter is late, is
// killed, replaced and wiped, all restart at once, a majority is lost, and the rest
// begins again.
// bareBroker starts a broker that keeps no locks.
func bareBroker(t *testing.T) (url string) {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeWithin(b.Close); err != nil {
			t.Error(err)
		}
	})
	return b.URL()
}

// TestMembersFindWhoServes: a participant opens a lock that no client has named, as it can at a
// broker that keeps the locks.
func TestMembersFindWhoServes(t *testing.T) {
	t.Parallel()
	url, dir := bareBroker(t), t.TempDir()
	for _, id := range []string{"v1", "v2", "v3"} {
		startNode(t, dir, url, "serve", "--id", id, "--voters", "v1,v2,v3", "--data", id)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p, err := pubsub.Join(ctx, url, "tug")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(ctx)
	topic, err := qosmutex.Open(ctx, p, "berth")
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close(ctx)
	h, err := topic.Lock(ctx, qosmutex.DefaultResource)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestVoters(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		liveThrough(t, bareBroker(t))
	})
	t.Run("mosquitto", func(t *testing.T) {
		extent.Long(t, "the same on another broker")
		t.Parallel()
		b, err := brokers.Start(context.Background(), brokers.Mosquitto, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Stop)
		liveThrough(t, b.URL())
	})
}

func liveThrough(t *testing.T, url string) {
	s := &site{t: t, url: url, dir: t.TempDir(), voters: map[string]*node{}}
	s.does(1, "no voters answer here", "voters", "show")
	s.start("v1", "v1,v2,v3")
	s.start("v2", "v3, v2, v1")
	s.states("v1 waits", "v2 waits", "v3 missing")
	s.does(1, "not set up yet", "voters", "replace", "v3", "v4")
	s.start("v3", "v1,v2,v3")
	s.states("v1 votes", "v2 votes", "v3 votes")
	fence := s.lock()

	s.kill("v3")
	s.states("v1 votes", "v2 votes", "v3 missing")
	s.does(1, "v3 missing: no answer", "doctor")
	poll.Until(t, "lock ls names the missing one", func() bool {
		_, _, stderr := s.run("lock", "ls")
		return strings.Contains(stderr, "voters are missing: v3")
	})
	poll.Until(t, "top names it, too", func() bool {
		_, stdout, _ := s.run("top", "-n", "1", "--json")
		return strings.Contains(stdout, `"missing":["v3"]`)
	})
	s.does(1, "serve --id v4 --voters v1,v2,v4", "voters", "replace", "v3", "v4")
	s.does(2, "v2 is a voter already", "voters", "replace", "v3", "v2")
	s.does(2, "v9 is no voter", "voters", "replace", "v9", "v4")
	s.start("v4", "v1,v2,v4")
	s.states("v1 votes", "v2 votes", "v3 missing", "v4 refused")
	s.does(0, "v4 votes: configuration 2, voters v1,v2,v4", "voters", "replace", "v3", "v4")
	s.does(0, "v4 votes", "voters", "replace", "v3", "v4") // it is done
	s.states("v1 votes", "v2 votes", "v4 votes")
	s.start("v3", "v1,v2,v3")
	s.states("v1 votes", "v2 votes", "v3 replaced", "v4 votes")
	if log := s.kill("v3"); !strings.Contains(log, "it was replaced") {
		t.Errorf("the voter that was replaced: %s", log)
	}

	s.kill("v2")
	if err := os.RemoveAll(filepath.Join(s.dir, "v2")); err != nil {
		t.Fatal(err)
	}
	s.start("v2", "v1,v2,v4")
	s.states("v1 votes", "v2 refused", "v4 votes")
	s.does(1, "voters replace v2 v2", "doctor")
	s.does(0, "v2 votes", "voters", "replace", "v2", "v2")
	s.states("v1 votes", "v2 votes", "v4 votes")
	fence = s.risen(fence)

	all := []string{"v1", "v2", "v4"}
	for _, id := range all {
		s.kill(id)
	}
	for i, id := range all {
		s.start(id, []string{"v1,v2,v3", "v1,v2,v4", "v1,v2,v4"}[i]) // v3 was replaced
	}
	v1 := s.voters["v1"]
	s.states("v1 votes", "v2 votes", "v4 votes")
	fence = s.risen(fence)

	s.kill("v2")
	s.kill("v4")
	poll.Until(t, "v1 misses both", func() bool {
		_, stdout, _ := s.run("voters", "show", "--json")
		return strings.Contains(stdout, `"missing":["v2","v4"]`)
	})
	s.states("v1 votes", "v2 missing", "v4 missing")
	s.does(1, "no majority: nothing can be locked", "doctor")
	s.does(exitTimeout, "did not come within 2s", "lock", "crane", "-w", "2s", "--", "true") // v1 serves, and goes on when they are back
	s.does(exitUnavailable, "no majority", "voters", "replace", "v2", "v4x", "--wait", "2s")
	s.does(1, "stop the voter or broker first", "voters", "reset", "--data", "v1", "--yes", "--grace", "0s")
	log := s.kill("v1")
	if said := v1.Out.String(); !strings.Contains(said, "one of v1,v2,v4, in v1") || !strings.Contains(said, "not of v1,v2,v3, as --voters says") {
		t.Errorf("v1 with a list that does not count: %s", said)
	}
	if !strings.Contains(log, "a majority of the voters is missing") {
		t.Errorf("the one that was left: %s", log)
	}
	s.does(2, "--yes", "voters", "reset", "--data", "v1")
	s.does(0, "reset: the former register is in v1/voter.reset-1", "voters", "reset", "--data", "v1", "--yes", "--grace", "4s")
	for _, id := range []string{"v1", "v6", "v7"} {
		s.start(id, "v1,v6,v7")
	}
	s.states("v1 votes", "v6 votes", "v7 votes")
	s.risen(fence)
}

// risen takes the lock once more and returns its fence, which is above the last one.
func (s *site) risen(last string) string {
	s.t.Helper()
	fence := s.lock()
	if len(fence) < len(last) || len(fence) == len(last) && fence <= last {
		s.t.Errorf("fence %s after %s", fence, last)
	}
	return fence
}

// TestVoterThatCannotWriteEnds: a voter whose file cannot be written votes no more, so
// its process ends and says why, and whoever looks after it can start it again.
// A voter of a domain that was reset, still running, speaks for nobody.
func TestSurveyBesideAVoterOfAFormerDomain(t *testing.T) {
	old := []quorum.Member{{ID: "v1", Instance: 1}, {ID: "v2", Instance: 2}, {ID: "v4", Instance: 4}}
	now := []quorum.Member{{ID: "v1", Instance: 11}, {ID: "v2", Instance: 12}, {ID: "v4", Instance: 14}}
	seen := &survey{reports: map[string]quorum.Report{
		"v3": {ID: "v3", Instance: 3, Phase: "retired", Config: 3, Domain: "old", Voters: old, Problem: "it was replaced"},
	}}
	if seen.majority() {
		t.Error("nobody votes")
	}
	for i, m := range now {
		seen.reports[m.ID] = quorum.Report{ID: m.ID, Instance: m.Instance, Phase: "voting", Config: 1, Domain: "new", Voters: now}
		if want := i > 0; seen.majority() != want {
			t.Errorf("with %d of 3: %s", i+1, seen.verdict())
		}
	}
	for _, l := range seen.lines() {
		if want := map[bool]string{true: "it was replaced"}[l.Voter == "v3"]; l.Problem != want {
			t.Errorf("%s: %s", l.Voter, l.Problem)
		}
	}
}

func TestVoterThatCannotWriteEnds(t *testing.T) {
	t.Parallel()
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeWithin(b.Close); err != nil {
			t.Error(err)
		}
	})
	s := &site{t: t, url: b.URL(), dir: t.TempDir(), voters: map[string]*node{}}
	for _, id := range []string{"v1", "v2", "v3"} {
		s.start(id, "v1,v2,v3")
	}
	s.states("v1 votes", "v2 votes", "v3 votes")
	s.kill("v3")
	if err := os.Mkdir(filepath.Join(s.dir, "v2", "voter.new"), 0o700); err != nil { // where it would write its next file
		t.Fatal(err)
	}
	s.start("v4", "v1,v2,v4")
	s.states("v1 votes", "v2 votes", "v3 missing", "v4 refused")
	s.does(0, "v4 votes", "voters", "replace", "v3", "v4")
	v2 := s.voters["v2"]
	if code := v2.exit(t); code != exitFailure || !strings.Contains(v2.Err.String(), "see to the disk of v2, then start it again") {
		t.Errorf("exit code %d: %s", code, &v2.Err)
	}
	if err := os.Remove(filepath.Join(s.dir, "v2", "voter.new")); err != nil {
		t.Fatal(err)
	}
	s.start("v2", "v1,v2,v4")
	s.states("v1 votes", "v2 votes", "v4 votes")
}

// The grace of a reset is for people to read, and not below what the longest lock needs.
func TestGraceOfAReset(t *testing.T) {
	grace, err := time.ParseDuration(newVotersReset().Flag("grace").DefValue)
	if err != nil || grace%time.Second != 0 || grace < qosmutex.WAN().Grace() || grace >= qosmutex.WAN().Grace()+time.Second {
		t.Errorf("%v, %v", grace, err)
	}
}
