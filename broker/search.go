package broker

import (
	"maps"
	"slices"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// search finds the topics with a retained message, or about to have one, that filters match,
// while others retain and clear. It goes through the topics once, in order, a part at a time,
// and looks at each with those filters only that begin like it. What is added meanwhile it
// notes, as that may come behind it.
type search struct {
	quota  *quota
	exact  packets.Subscriptions                // without wildcards
	scopes []scope                              // the others, sorted by how they begin
	pass   pass                                 // to go
	after  func(from string, most int) []string // the next topics in order
	from   string                               // where it goes on
	missed map[string]struct{}                  // added since it began or was last asked; guarded by quota.mu
}

// scope is a filter with wildcards, and how each topic begins that it matches.
type scope struct {
	filter *packets.Subscription
	begin  string
}

const (
	// searchSteps is how many comparisons of a topic with a filter are a part of a search:
	// some two milliseconds.
	searchSteps = 20_000
	// searchTopics is how many topics are looked at in a part.
	searchTopics = 1024
)

// search begins one, which must end.
func (q *quota) search(filters packets.Subscriptions) *search {
	s := &search{quota: q, after: q.after, missed: map[string]struct{}{}}
	for i := range filters {
		f := &filters[i]
		wild := strings.IndexAny(f.Filter, "+#")
		if wild < 0 {
			s.exact = append(s.exact, *f)
			continue
		}
		begin := f.Filter[:wild]
		if parent, all := strings.CutSuffix(f.Filter, "/#"); all && len(parent) < wild {
			begin = parent // a/# matches a
		}
		s.scopes = append(s.scopes, scope{f, begin})
	}
	slices.SortFunc(s.scopes, func(a, b scope) int { return strings.Compare(a.begin, b.begin) })
	s.pass.ahead = s.scopes
	q.mu.Lock()
	defer q.mu.Unlock()
	q.searches[s] = struct{}{}
	return s
}

func (s *search) end() {
	s.quota.mu.Lock()
	defer s.quota.mu.Unlock()
	delete(s.quota.searches, s)
}

// pass leads through sorted topics.
type pass struct {
	ahead []scope // sorted by how they begin
	in    []scope // those that the topic is in; each begins like the one before it
}

// to returns the filters that begin like a topic, which must come after the one before.
func (w *pass) to(topic string) []scope {
	for n := len(w.in); n > 0 && !strings.HasPrefix(topic, w.in[n-1].begin); n-- {
		w.in = w.in[:n-1]
	}
	for len(w.ahead) > 0 && w.ahead[0].begin <= topic {
		if strings.HasPrefix(topic, w.ahead[0].begin) {
			w.in = append(w.in, w.ahead[0])
		}
		w.ahead = w.ahead[1:]
	}
	return w.in
}

// found is told of a match, and reports whether other filters of that topic matter, too.
type found func(f *packets.Subscription, topic string) (more bool)

// names looks up those topics that filters name.
func (s *search) names(tell found) {
	s.quota.mu.Lock()
	there := slices.DeleteFunc(slices.Clone(s.exact), func(f packets.Subscription) bool {
		_, there := s.quota.byTopic[f.Filter]
		return !there
	})
	s.quota.mu.Unlock()
	for i := range there {
		tell(&there[i], there[i].Filter)
	}
}

// part goes on for a part of the search, and reports whether there is more.
func (s *search) part(tell found) (more bool) {
	if len(s.pass.in) == 0 {
		if len(s.pass.ahead) == 0 {
			return false
		}
		s.from = max(s.from, s.pass.ahead[0].begin)
	}
	topics := s.after(s.from, searchTopics)
	for i, steps := 0, 0; i < len(topics) && steps < searchSteps; i++ {
		steps += compare(s.pass.to(topics[i]), topics[i], tell)
		s.from = topics[i] + "\x00" // what comes next
		if len(s.pass.in) == 0 {
			return len(s.pass.ahead) > 0
		}
	}
	return len(topics) > 0
}

// after returns the next topics in order. The long part of a search is without mu, which all
// who retain need.
func (q *quota) after(from string, most int) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(cut(q.topics, from, most))
}

// cut returns the first of some sorted topics, from one on.
func cut(topics []string, from string, most int) []string {
	at, _ := slices.BinarySearch(topics, from)
	return topics[at:min(at+most, len(topics))]
}

// compare tells of the filters that match a topic, and returns how many it has looked at.
func compare(with []scope, topic string, tell found) (steps int) {
	for i := range with {
		if f := with[i].filter; matches(f.Filter, topic) && !tell(f, topic) {
			return i + 1
		}
	}
	return len(with)
}

// again begins anew with what was added since the search began, or since the last call, and
// returns how much that is.
func (s *search) again() int {
	s.quota.mu.Lock()
	missed := s.missed
	s.missed = map[string]struct{}{}
	s.quota.mu.Unlock()
	sorted := slices.Sorted(maps.Keys(missed))
	s.after = func(from string, most int) []string { return cut(sorted, from, most) }
	s.pass, s.from = pass{ahead: s.scopes}, ""
	return len(sorted)
}

// matching returns the topics that a filter matches.
func (q *quota) matching(filter string) (topics []string) {
	s := q.search(packets.Subscriptions{{Filter: filter}})
	defer s.end()
	note := func(_ *packets.Subscription, topic string) bool {
		topics = append(topics, topic)
		return false
	}
	s.names(note)
	for s.part(note) {
	}
	return topics
}
