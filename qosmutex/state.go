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
	StatusHeld    = "held"    // Holder has entered, and has not said that it left
	StatusGranted = "granted" // a grant is out, and no holder is known
	StatusFree    = "free"    // nobody is inside, as far as is known: the token rests at the root, or who left last retains it
	StatusUnknown = "unknown" // the token is being recovered: there may be a holder
)

// State is what the root of a topic knows of one resource: retained JSON on
// R/lock/{topic}/{resource}/state. Only a root with a valid lease publishes it.
type State struct {
	Topic    string    `json:"topic"`
	Resource string    `json:"resource"`
	Status   string    `json:"status"`
	Holder   string    `json:"holder,omitempty"`  // who is inside, while held
	Grantee  string    `json:"grantee,omitempty"` // while granted: for whom, until it is known to have left
	Via      string    `json:"via,omitempty"`     // where Holder or Grantee is a client: through which participant; see WithClient
	Priority int64     `json:"priority"`          // of the request of Holder or Grantee
	Fence    string    `json:"fence,omitempty"`   // decimal, of the last entry known; empty: the root knows of none
	Since    time.Time `json:"since"`             // of the entry, while held; else of Status and Grantee
	Waiting  int       `json:"waiting"`
	Queue    []Waiter  `json:"queue,omitempty"` // the first 16, in the order of service
	Epoch    string    `json:"epoch"`
	Root     string    `json:"root"`
	How      string    `json:"how,omitempty"`      // the token came to Holder: see Event; empty: the root does not know
	Decision *Decision `json:"decision,omitempty"` // the latest one of the root; nil: it has given no grant, or is an older program
}

// Waiter is one waiting request, and what its place in the queue of the root rests on.
type Waiter struct {
	Participant string `json:"participant"`   // who waits: a client, if Via is there
	Via         string `json:"via,omitempty"` // through which participant a client asks
	Priority    int64  `json:"priority"`
	Any         bool   `json:"any,omitempty"`

	Clock uint64 `json:"clock,omitempty"` // of the algorithm, when it asked; 0: the root is an older program
	// By is what puts it behind the one before it: "priority", "clock", "patience", "arrival",
	// "level" or "deadline". Empty: it is the first.
	By        string    `json:"by,omitempty"`
	Level     int       `json:"level,omitempty"`     // under Aging: lower comes first
	Patience  uint32    `json:"patience,omitempty"`  // under Fair and Aging: how many that came later may still be served before it
	Exhausted bool      `json:"exhausted,omitempty"` // under Fair and Aging: none may, so it comes before all of which that is not true
	Arrival   uint64    `json:"arrival,omitempty"`   // numbers the requests as they came to the root
	Deadline  time.Time `json:"deadline,omitzero"`   // by the root's wall clock, to a tenth of a second
	Passed    bool      `json:"passed,omitempty"`    // passed over for now: its participant may be dead
}

// View is what holds for a whole topic: retained JSON on R/lock/{topic}/view.
type View struct {
	Topic       string    `json:"topic"`
	Epoch       string    `json:"epoch"`
	Root        string    `json:"root"`
	TTL         float64   `json:"ttl"`                   // seconds
	EarlierTTL  float64   `json:"earlier_ttl,omitempty"` // of a root of before, while what it granted may last for longer than TTL
	GrantsFrom  time.Time `json:"grants_from,omitzero"`  // when a root that has just begun grants all, at the latest and by its wall clock; zero: it does
	Models      string    `json:"models"`
	ModelsBy    string    `json:"models_by,omitempty"` // who declared them; empty: nobody, it is a default
	Resources   []string  `json:"resources"`
	Open        bool      `json:"open"`                   // any other name is a resource, too
	ResourcesBy string    `json:"resources_by,omitempty"` // who declared Resources and Open; empty: nobody
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
