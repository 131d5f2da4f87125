package protocol

// MaxShown is how many waiting requests a [Decision] names.
const MaxShown = 16

// Decision is why a root gave a token as it did, for people: an algorithm acts on none.
// It is what the root knew when it decided. Under Request Replace it knows only the heads
// of the queues below it.
type Decision struct {
	Resource string
	Grant    Grant
	Fences   Fences // every entry on the grant has one of these
	Models   Models // in force
	// How the token comes to the request that was chosen. Relays may enter before and after
	// it, with other fences of the grant: see Granted.How.
	How      How
	Chosen   Waiter
	Place    int      // of Chosen in Queue, from 1; 0: it is not among those shown
	Retained bool     // its participant may keep the token and enter again, with more fences of the grant
	Outdated bool     // under Direct: the order has changed since the grant was numbered
	Waiting  int      // requests known to wait, with Chosen and those that others keep to themselves
	Queue    []Waiter // the first MaxShown in the order of service, with Chosen
}

// How says how the token came to whoever enters.
type How uint8

// How the token came.
const (
	HowUnknown  How = iota // the algorithm does not tell
	HowRoot                // in turn, at the root, where the token rests
	HowTurn                // in turn, from the root down the tree
	HowDirect              // in turn, straight from whoever had it before: Direct
	HowPassing             // while it was on its way from or to somebody else: Use
	HowRetained            // it was kept after the entry before: Retain
	HowResumed             // a hold of the process before goes on
	howEnd
)

var hows = [howEnd]string{"", "root", "turn", "direct", "passing", "retained", "resumed"}

// String returns the word for it in JSON; that of HowUnknown is empty.
func (h How) String() string {
	if h < howEnd {
		return hows[h]
	}
	return ""
}

// ParseHow undoes String. What it does not know is HowUnknown.
func ParseHow(s string) How {
	for h, word := range hows {
		if word == s {
			return How(h)
		}
	}
	return HowUnknown
}

// Criterion is the first part of their ordering keys in which two requests differ.
type Criterion uint8

// Criteria.
const (
	ByNothing  Criterion = iota // there is no request to compare with
	ByPriority                  // smaller is more important
	ByClock                     // an earlier turn, by the clock of the algorithm
	ByPatience                  // that of the first is exhausted
	ByArrival                   // came earlier to the queue
	ByLevel                     // lower, under Aging
	ByDeadline                  // earlier
	criterionEnd
)

var criteria = [criterionEnd]string{"", "priority", "clock", "patience", "arrival", "level", "deadline"}

// String returns the word for it in JSON; that of ByNothing is empty.
func (c Criterion) String() string {
	if c < criterionEnd {
		return criteria[c]
	}
	return ""
}

// LendQueue returns room for the queue of one of Decisions, to be appended to at most
// MaxShown times.
func (o *Output) LendQueue() []Waiter {
	from := len(o.shown)
	if cap(o.shown)-from < MaxShown {
		o.shown, from = make([]Waiter, 0, max(MaxShown, 2*cap(o.shown))), 0
	}
	o.shown = o.shown[:from+MaxShown]
	return o.shown[from : from : from+MaxShown]
}
