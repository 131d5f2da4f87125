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
	exact  packets.Subscriptions // without wildcards
	scopes []scope               // the others, sorted by how they begin
	pass   pass                  // to go
	list   []string              // the topics to go through; nil: all
	from   string                // where it goes on
	missed map[string]struct{}   // added since it began or was last asked; guarded by quota.mu
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

func (q *quota) search(filters packets.Subscriptions) *search {
	s := &search{quota: q, missed: map[string]struct{}{}}
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
	return s
}

// begin has it note what is added, until its end: a set for each that is on its way, so few
// should be.
func (s *search) begin() {
	s.quota.mu.Lock()
	defer s.quota.mu.Unlock()
	s.quota.searches[s] = struct{}{}
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
func (p *pass) to(topic string) []scope {
	for n := len(p.in); n > 0 && !strings.HasPrefix(topic, p.in[n-1].begin); n-- {
		p.in = p.in[:n-1]
	}
	for len(p.ahead) > 0 && p.ahead[0].begin <= topic {
		if strings.HasPrefix(topic, p.ahead[0].begin) {
			p.in = append(p.in, p.ahead[0])
		}
		p.ahead = p.ahead[1:]
	}
	return p.in
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
	topics, next := s.topics()
	for i, steps := 0, 0; i < len(topics); i++ {
		if steps >= searchSteps {
			next = topics[i]
			break
		}
		steps += compare(s.pass.to(topics[i]), topics[i], tell)
		if len(s.pass.in) == 0 {
			s.from = topics[i] + "\x00" // what comes next
			return len(s.pass.ahead) > 0
		}
	}
	if next == "" {
		s.pass = pass{} // it stays at its end
	}
	s.from = next
	return next != ""
}

// topics returns some of the topics that are to be looked at, and where it goes on: "" if it
// does not. Without what was added meanwhile, or a search would not end while topics are added
// as fast as it goes on. What is long is done without mu, which all who retain need.
func (s *search) topics() (topics []string, next string) {
	if s.list != nil {
		topics = cut(s.list, s.from)
		return topics, behind(topics)
	}
	for from := s.from; len(topics) == 0; from = next {
		s.quota.mu.Lock()
		all := cut(s.quota.topics, from)
		for _, topic := range all {
			if _, added := s.missed[topic]; !added {
				topics = append(topics, topic)
			}
		}
		next = behind(all)
		s.quota.mu.Unlock()
		if next == "" {
			break
		}
	}
	return topics, next
}

// cut returns some of sorted topics, from one on.
func cut(topics []string, from string) []string {
	at, _ := slices.BinarySearch(topics, from)
	return topics[at:min(at+searchTopics, len(topics))]
}

// behind returns what may come after some topics; "" after none.
func behind(topics []string) string {
	if len(topics) == 0 {
		return ""
	}
	return topics[len(topics)-1] + "\x00"
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

// again has the search go through what was added since it began, or since the last call, and
// returns how much that is.
func (s *search) again() int {
	s.quota.mu.Lock()
	missed := s.missed
	s.missed = map[string]struct{}{}
	s.quota.mu.Unlock()
	s.list = append([]string{}, slices.Sorted(maps.Keys(missed))...)
	s.pass, s.from = pass{ahead: s.scopes}, ""
	return len(s.list)
}

// matching returns the topics that a filter matches.
func (q *quota) matching(filter string) (topics []string) {
	s := q.search(packets.Subscriptions{{Filter: filter}})
	note := func(_ *packets.Subscription, topic string) bool {
		topics = append(topics, topic)
		return false
	}
	s.names(note)
	for s.part(note) {
	}
	return topics
}
