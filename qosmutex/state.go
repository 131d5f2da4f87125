package qosmutex

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"padme/qosmutex/protocol"
)

// maxQueue bounds the queue in a State; Waiting counts all.
const maxQueue = 16

// What Status of a State says.
const (
	StatusHeld    = "held"    // Holder has entered, and has not reported that it left
	StatusGranted = "granted" // the resource is granted, and no holder is known
	StatusFree    = "free"    // no holder is known: the token is at the root, or the last holder retains it
	StatusUnknown = "unknown" // the token is being recovered: there may be a holder
)

// State is what the root of a topic knows of one resource: retained JSON on
// R/lock/{topic}/{resource}/state. Only a root with a valid lease publishes it.
type State struct {
	Topic    string    `json:"topic"`
	Resource string    `json:"resource"`
	Status   string    `json:"status"`
	Holder   string    `json:"holder,omitempty"`  // the holder, while held
	Grantee  string    `json:"grantee,omitempty"` // while granted: the participant or client it is granted to, until it is known to have left
	Via      string    `json:"via,omitempty"`     // if Holder or Grantee is a client: the participant it uses; see WithClient
	Priority int64     `json:"priority"`          // of the request of Holder or Grantee
	Fence    string    `json:"fence,omitempty"`   // decimal, of the last known entry; empty: none is known
	Since    time.Time `json:"since"`             // of the entry, while held; otherwise of Status and Grantee
	Waiting  int       `json:"waiting"`
	Queue    []Waiter  `json:"queue,omitempty"` // the first 16, in the order of service
	Epoch    string    `json:"epoch"`
	Root     string    `json:"root"`
	How      string    `json:"how,omitempty"`      // how the token came to Holder, see Event; empty: the root does not know
	Decision *Decision `json:"decision,omitempty"` // the root's latest; nil: it has granted nothing yet, or is an older program
}

// Waiter is one waiting request, and why it has its place in the queue of the root.
type Waiter struct {
	Participant string `json:"participant"`   // that waits; the client, if Via is set
	Via         string `json:"via,omitempty"` // the participant that a client uses
	Priority    int64  `json:"priority"`
	Any         bool   `json:"any,omitempty"`

	Clock uint64 `json:"clock,omitempty"` // logical, of the request; 0: the root is an older program
	// By is the criterion that places it behind the previous request: "priority", "clock", "patience", "arrival",
	// "level" or "deadline". Empty: it is the first.
	By        string    `json:"by,omitempty"`
	Level     int       `json:"level,omitempty"`     // under Aging: lower comes first
	Patience  uint32    `json:"patience,omitempty"`  // under Fair and Aging: how many later requests may still be served before it
	Exhausted bool      `json:"exhausted,omitempty"` // under Fair and Aging: no later request may overtake it, so it is served before every request that still has patience
	Arrival   uint64    `json:"arrival,omitempty"`   // numbers the requests in the order in which they reached the root
	Deadline  time.Time `json:"deadline,omitzero"`   // by the root's wall clock, to a tenth of a second
	Passed    bool      `json:"passed,omitempty"`    // skipped for now: its participant may be dead
}

// View describes a whole topic: retained JSON on R/lock/{topic}/view.
type View struct {
	Topic       string    `json:"topic"`
	Epoch       string    `json:"epoch"`
	Root        string    `json:"root"`
	TTL         float64   `json:"ttl"`                   // seconds
	EarlierTTL  float64   `json:"earlier_ttl,omitempty"` // seconds, of an earlier root, while its grants may last longer than TTL
	GrantsFrom  time.Time `json:"grants_from,omitzero"`  // by its wall clock, when a new root will grant everything at the latest; zero: it already does
	Models      string    `json:"models"`
	ModelsBy    string    `json:"models_by,omitempty"` // the participant that declared them; empty: they are a default
	Resources   []string  `json:"resources"`
	Open        bool      `json:"open"`                   // any other name is a resource, too
	ResourcesBy string    `json:"resources_by,omitempty"` // the participant that declared Resources and Open; empty: none
	Members     int       `json:"members"`
	Missing     []string  `json:"missing,omitempty"` // voters of the register that do not answer the root, if it is a voter
}

func (v View) equal(o View) bool {
	return v.Topic == o.Topic && v.Epoch == o.Epoch && v.Root == o.Root &&
		v.TTL == o.TTL && v.EarlierTTL == o.EarlierTTL && v.GrantsFrom.Equal(o.GrantsFrom) && v.Models == o.Models && v.ModelsBy == o.ModelsBy && slices.Equal(v.Resources, o.Resources) &&
		v.Open == o.Open && v.ResourcesBy == o.ResourcesBy && v.Members == o.Members && slices.Equal(v.Missing, o.Missing)
}

func (s State) equal(o State) bool {
	return s.Status == o.Status && s.Holder == o.Holder && s.Grantee == o.Grantee && s.Via == o.Via && s.Priority == o.Priority && s.Fence == o.Fence && s.Since.Equal(o.Since) &&
		s.Waiting == o.Waiting && slices.Equal(s.Queue, o.Queue) && s.Epoch == o.Epoch && s.Root == o.Root
}

// parseEpoch undoes Epoch.String; false for anything else.
func parseEpoch(s string) (protocol.Epoch, bool) {
	number, tie, ok := strings.Cut(s, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	i, err2 := strconv.ParseUint(tie, 36, 64)
	e := protocol.Epoch{Number: n, Tie: i}
	return e, ok && err == nil && err2 == nil && e.String() == s
}
