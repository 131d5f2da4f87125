package quorum

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"padme/qosmutex/register/caspaxos"
)

// Report is what a voter says about itself and the others to whoever asks.
type Report struct {
	ID       string   `json:"id"`
	Instance uint64   `json:"instance,string"` // of its file
	Phase    string   `json:"phase"`           // enrolling, voting, installing, retired or refused
	Listed   []string `json:"listed"`          // the voters that it was first started with
	Domain   string   `json:"domain,omitempty"`
	Config   uint32   `json:"configuration"`    // its number; 0: there is none yet
	Voters   []Member `json:"voters,omitempty"` // of the configuration
	Missing  []string `json:"missing,omitempty"`
	Asking   []Member `json:"asking,omitempty"` // who was started as a voter and is none
	Quiet    float64  `json:"quiet,omitempty"`  // seconds for which it answers nothing, after a restart
	Sync     float64  `json:"sync,omitempty"`   // seconds: the slowest of the last writes to its disk; 0: none yet
	Problem  string   `json:"problem,omitempty"`
	Vanished string   `json:"vanished,omitempty"` // its file is not at its path any more, and what to do
}

// Member is a voter, and the file that belongs to it.
type Member struct {
	ID       string `json:"id"`
	Instance uint64 `json:"instance,string"`
}

// Report returns what the voter says about itself and the others.
func (v *Voter) Report() Report {
	s := v.Status()
	r := Report{
		ID: v.opts.Self, Instance: s.Instance, Phase: s.Phase.String(), Listed: s.Listed, Missing: s.Missing,
		Quiet: time.Duration(s.Quiet).Seconds(), Sync: v.slowestSync().Seconds(), Problem: problem(v.opts.Self, &s),
	}
	if err := v.Vanished(); err != nil {
		r.Vanished = err.Error()
	}
	if s.Config != nil {
		r.Domain, r.Config = s.Config.Domain.String(), s.Config.Number
		for _, m := range s.Config.Voters {
			r.Voters = append(r.Voters, Member(m))
		}
	}
	for id, instance := range s.Asking {
		if s.Config != nil {
			r.Asking = append(r.Asking, Member{id, instance})
		}
	}
	slices.SortFunc(r.Asking, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return r
}

// text is the report as it travels.
func (r *Report) text() string {
	b, err := json.Marshal(r)
	if err != nil || len(b) > caspaxos.MaxText {
		b, _ = json.Marshal(Report{ID: r.ID, Phase: r.Phase}) // names that are too long
	}
	return string(b)
}

// cause tells problems apart: who of several says the same makes no other one.
func cause(self string, s *caspaxos.Status) string {
	anybody := *s
	anybody.By = ""
	if anybody.Foreign != "" {
		anybody.Foreign = "somebody"
	}
	return problem(self, &anybody)
}

// problem says why a voter does not vote, and what to do; empty: it does, or soon will.
func problem(self string, s *caspaxos.Status) string {
	list := func(ids []string) string { return strings.Join(ids, ",") }
	switch {
	case s.Phase == caspaxos.Retired:
		return fmt.Sprintf("it was replaced, the voters are now %s: stop it", list(s.Config.IDs()))
	case s.Phase != caspaxos.Refused:
	case s.Reason == caspaxos.ReasonVoters && !s.Enrolled:
		return fmt.Sprintf("it was started with the voters %s, but %s with %s: start all of them with the same list", list(s.Listed), s.By, list(s.Voters))
	case s.Reason == caspaxos.ReasonVoters:
		return fmt.Sprintf("%s refuses it: it was started with the voters %s, but %s knows %s: start it again with those, "+
			"or have it take a voter's place with \"pubsub-node voters replace OLD %s\"", s.By, list(s.Listed), s.By, list(s.Voters), self)
	case s.Reason == caspaxos.ReasonWiped:
		return fmt.Sprintf("another file was enrolled under its name: start it with that file, or if that is lost "+
			"have it enroll as a new one with \"pubsub-node voters replace %s %s\"", self, self)
	case s.Reason == caspaxos.ReasonRestored:
		return fmt.Sprintf("its file is older than what it has said before, perhaps a backup: stop it, remove the file, start it "+
			"again, then \"pubsub-node voters replace %s %s\"", self, self)
	}
	if s.Foreign != "" {
		return fmt.Sprintf("%s sends it messages of another domain: its file belongs to other voters, or one of the two was reset: "+
			"see \"pubsub-node voters show\"", s.Foreign)
	}
	return ""
}
