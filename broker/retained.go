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

// retainedCost is what it costs to keep a message, in bytes of memory or of the disk, whichever
// are more; 0 for one that clears its topic. Levels that topics share are charged to each.
func retainedCost(pk *packets.Packet) int64 {
	if len(pk.Payload) == 0 {
		return 0
	}
	levels := 1 + strings.Count(pk.TopicName, "/")
	bytes := 2*len(pk.TopicName) + len(pk.Origin) + len(pk.Payload) + propertiesSize(&pk.Properties)
	memory := messageCosts + levels*levelCosts + bytes + bytes/8 // the allocator rounds up
	return int64(max(memory, len(pk.TopicName)+storedSize(pk)))
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
