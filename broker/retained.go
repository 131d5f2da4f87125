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
