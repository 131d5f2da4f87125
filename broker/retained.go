package broker

import (
	"slices"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"
)

// What a retained message costs beside its bytes: see TestRetainedMessagesCostWhatIsCharged.
const (
	messageCosts  = 1280 // mochi's packet, which has room for a CONNECT, and our tables
	levelCosts    = 640  // a node of mochi's tree, with four maps
	propertyCosts = 96   // two strings
)

// retainedCost is what it costs to keep a message, in bytes; 0 for one that clears its
// topic. Levels that topics share are charged to each.
func retainedCost(topic string, payload int, p *packets.Properties) int64 {
	if payload == 0 {
		return 0
	}
	levels, bytes := 1+strings.Count(topic, "/"), 2*len(topic)+payload+propertiesSize(p)
	return int64(messageCosts + levels*levelCosts + bytes + bytes/8) // the allocator rounds up
}

func propertiesSize(p *packets.Properties) int {
	size := len(p.CorrelationData) + len(p.ContentType) + len(p.ResponseTopic) + len(p.User)*propertyCosts
	for _, u := range p.User {
		size += len(u.Key) + len(u.Val)
	}
	return size
}

// ownStrings lets go of the packet that a message came in, which mochi's strings are parts
// of: 1 MB may hang on a topic.
func ownStrings(pk *packets.Packet) {
	pk.TopicName = strings.Clone(pk.TopicName)
	p := &pk.Properties
	p.ContentType, p.ResponseTopic = strings.Clone(p.ContentType), strings.Clone(p.ResponseTopic)
	p.User = slices.Clone(p.User)
	for i, u := range p.User {
		p.User[i] = packets.UserProperty{Key: strings.Clone(u.Key), Val: strings.Clone(u.Val)}
	}
}

// keptAdded is how many of the latest topics are remembered, at least.
const keptAdded = 1024

// mark is a place among the topics that are added.
func (q *quota) mark() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped + len(q.added)
}

// addedSince returns the topics that were added since a mark; all says that they are too
// many to tell.
func (q *quota) addedSince(mark int) (topics []string, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if mark < q.dropped {
		return nil, true
	}
	return slices.Clone(q.added[mark-q.dropped:]), false
}

// matching returns the topics with a retained message, or about to have one, that a
// filter matches.
func (q *quota) matching(filter string) (found []string) {
	wild := strings.IndexAny(filter, "+#")
	if wild < 0 {
		q.mu.Lock()
		defer q.mu.Unlock()
		if _, there := q.byTopic[filter]; there {
			found = []string{filter}
		}
		return found
	}
	begin := filter[:wild]
	if parent, all := strings.CutSuffix(filter, "/#"); all && len(parent) < wild {
		begin = parent // a/# matches a
	}
	for _, topic := range q.beginning(begin) {
		if matches(filter, topic) {
			found = append(found, topic)
		}
	}
	return found
}

// beginning returns the topics that begin so. The long part of a look-up is without mu, which
// all who retain need.
func (q *quota) beginning(begin string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	from, _ := slices.BinarySearch(q.topics, begin)
	n, _ := slices.BinarySearchFunc(q.topics[from:], begin, func(topic, begin string) int {
		if strings.HasPrefix(topic, begin) {
			return -1
		}
		return 1
	})
	return slices.Clone(q.topics[from : from+n])
}

// matches reports whether a valid filter matches a topic.
func matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && (filter[0] == '+' || filter[0] == '#') {
		return false
	}
	for {
		f, filterRest, moreFilter := strings.Cut(filter, "/")
		if f == "#" {
			return true
		}
		t, topicRest, moreTopic := strings.Cut(topic, "/")
		if f != "+" && f != t {
			return false
		}
		switch {
		case moreFilter && moreTopic:
			filter, topic = filterRest, topicRest
		case moreFilter:
			return filterRest == "#"
		default:
			return !moreTopic
		}
	}
}
