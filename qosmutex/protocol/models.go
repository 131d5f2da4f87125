package protocol

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Priority selects the order in which requests are served (PADME §3.2).
type Priority uint8

// Priority models.
const (
	// Level serves by priority, then by arrival; with RequestReplace by clock before
	// arrival. A less important request may starve.
	Level Priority = iota
	// Fair serves by clock, then priority, then arrival: everybody in turn. A
	// participant where n requests wait lets at most FairBound(n) later ones overtake
	// one that comes. What is served while a token passes (Use) comes on top, and so do
	// the entries that a participant makes with a token that it retains (Retain), until
	// the root's recall reaches it. Where many contend, Use gives most entries to the
	// participants near the root.
	Fair
	// Aging serves by priority as Level does, but a request that is overtaken often
	// enough becomes more important (the Level heuristic of the SLA paper, §III-A2,
	// with c = 2). It tells AgingLevels apart: the priorities that wait, in their
	// order. A participant lets at most AgingBound later requests overtake one that
	// waits there, and 2^10 - 2^(10-r) while no more than r higher priorities wait.
	Aging
	// Deadline serves by deadline, the earliest first (the SLA paper, §III-B); a
	// request that cannot be promised its deadline is refused at once. Requests
	// without a deadline come last, in order of arrival. Replace, Use, Retain and Direct are
	// then as Forward: the root plans with every request and every hold.
	Deadline
)

// AgingLevels is how many priorities Aging tells apart.
const AgingLevels = 8

// AgingBound is how many later requests overtake a request of the least important
// level before it is of the most important one: 8 + 16 + … + 512.
const AgingBound = 1016

// FairBound is how many later requests may overtake one under Fair that finds this
// many waiting.
func FairBound(waiting int) int { return waiting + 16 }

// RequestModel selects which requests a participant passes to its parent.
type RequestModel uint8

// Request models.
const (
	// RequestForward passes every request on at once.
	RequestForward RequestModel = iota
	// RequestReplace passes on only the most important request of the subtree.
	RequestReplace
)

// PassModel selects whether a participant may enter when a token only passes
// through it.
type PassModel uint8

// Pass models, used for Reply (the token on its way down) and Release (up).
const (
	// Forward passes the token on at once.
	Forward PassModel = iota
	// Use enters first if an own request is satisfied by the passing token. Under Fair
	// it costs fairness: of 20 equal participants with a fan-out of 8 that ask all the
	// time, the root enters 16 times as often as a leaf, and Jain's index is 0.26 with
	// Use on Reply and Release, 1.00 without:
	//
	//	pubsub-node sim --models fair-replace-use-use --nodes 20 --fanout 8 --priorities 0 --latency 20ms --think 20ms
	Use
	// Retain, of Release alone, lets a participant keep the token when it leaves, if it had
	// it the last time, too, and no request waits. To enter again then takes no message. It
	// keeps the token until somebody else asks, at most for a time-to-live, and the root
	// hands out [RetainedFences] with it. Where no token is retained it is as Forward.
	Retain
	// Direct, of Release alone, lets a participant that leaves send the token straight to
	// the next one, as the schedule says that the root has sent it. Then one message is
	// between a leave and the next entry, wherever both are in the tree. Nobody enters while
	// a token merely passes, and every request goes up to the root, which plans with it: as
	// if Reply and Request were Forward.
	Direct
)

// ScheduleLength is how many requests a schedule names, at most.
const ScheduleLength = 8

// RetainedFences is how many entries a participant makes with a token that it retains
// before it asks again. What it does not use is lost, and a topic must not use more fences
// than one in a microsecond on average: those of a new register begin at the wall clock.
const RetainedFences = 1 << 6

// Models is a combination of the four PADME models: one of the papers' sixteen, or
// one with a further Priority model. The zero value is
// Level-Forward-Forward-Forward.
type Models struct {
	Priority Priority
	Request  RequestModel
	Reply    PassModel
	Release  PassModel
}

// ErrModels is returned for text that names no combination of models.
var ErrModels = errors.New("protocol: models are four words, " + ModelsForm() + ", for Priority-Request-Reply-Release, or their initials, such as FRUU")

// The names of each model's values, in the order of the constants. A value that has no
// name here does not exist: Valid and the decoder refuse it.
var (
	priorityNames = []string{"level", "fair", "aging", "deadline"}
	requestNames  = []string{"forward", "replace"}
	replyNames    = []string{"forward", "use"}
	releaseNames  = []string{"forward", "use", "retain", "direct"}
)

// ModelNames returns the names of the values of Priority, Request, Reply and Release, each
// in the order of the constants.
func ModelNames() [4][]string {
	return [...][]string{
		slices.Clone(priorityNames), slices.Clone(requestNames), slices.Clone(replyNames), slices.Clone(releaseNames),
	}
}

// ModelsForm returns the words that ParseModels reads, for messages:
// "{level|fair|…}-{forward|replace}-…".
func ModelsForm() string {
	var parts []string
	for _, names := range ModelNames() {
		parts = append(parts, "{"+strings.Join(names, "|")+"}")
	}
	return strings.Join(parts, "-")
}

// Valid reports whether each model has a value that exists for it.
func (m Models) Valid() bool {
	return int(m.Priority) < len(priorityNames) && int(m.Request) < len(requestNames) &&
		int(m.Reply) < len(replyNames) && int(m.Release) < len(releaseNames)
}

// String returns the form that ParseModels reads, such as "fair-replace-use-use". It
// shows a value that does not exist as "invalid(9)", which ParseModels refuses.
func (m Models) String() string {
	return nameOf(priorityNames, uint8(m.Priority)) + "-" +
		nameOf(requestNames, uint8(m.Request)) + "-" +
		nameOf(replyNames, uint8(m.Reply)) + "-" +
		nameOf(releaseNames, uint8(m.Release))
}

func nameOf(names []string, value uint8) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("invalid(%d)", value)
}

// ParseModels reads "fair-replace-use-use" (Priority-Request-Reply-Release) or
// its initials, "FRUU". Case does not matter.
func ParseModels(s string) (Models, error) {
	words := strings.Split(strings.ToLower(s), "-")
	if len(words) == 1 && len(s) == 4 {
		words = strings.Split(strings.ToLower(s), "")
	}
	if len(words) != 4 {
		return Models{}, fmt.Errorf("%w; got %q", ErrModels, s)
	}
	p, q, r, l := pick(priorityNames, words[0]), pick(requestNames, words[1]), pick(replyNames, words[2]), pick(releaseNames, words[3])
	if min(p, q, r, l) < 0 {
		return Models{}, fmt.Errorf("%w; got %q", ErrModels, s)
	}
	return Models{Priority(p), RequestModel(q), PassModel(r), PassModel(l)}, nil
}

// pick is the place of a word among names, which may be cut to its initial, or -1.
func pick(names []string, word string) int {
	return slices.IndexFunc(names, func(name string) bool { return word == name || word == name[:1] })
}

// AllModels returns the papers' sixteen combinations, Level before Fair and Forward
// before Replace and Use.
func AllModels() []Models {
	all := make([]Models, 0, 16)
	for i := range 16 {
		all = append(all, Models{
			Priority: Priority(i >> 3 & 1), Request: RequestModel(i >> 2 & 1),
			Reply: PassModel(i >> 1 & 1), Release: PassModel(i & 1),
		})
	}
	return all
}

// Combinations returns every combination: the papers' sixteen and those with a further
// Priority or Release model.
func Combinations() []Models {
	var all []Models
	for p := range priorityNames {
		for q := range requestNames {
			for y := range replyNames {
				for l := range releaseNames {
					all = append(all, Models{Priority(p), RequestModel(q), PassModel(y), PassModel(l)})
				}
			}
		}
	}
	return all
}
