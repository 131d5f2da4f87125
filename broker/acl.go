package broker

import (
	"net/url"
	"strings"
)

// acl decides by topic name who may read and write what. It knows the topic
// contract of padme: {prefix}/v1/{domain}/{family}/….
type acl struct {
	prefix string // with a slash and the version: "padme/v1/"
}

// maxLevels is one more than the longest topic of the contract has below the
// prefix, so that a longer one is seen to be longer.
const maxLevels = 8

// mine reports whether a percent-encoded topic level names the user. Both sides
// of the comparison are decoded, so it does not matter which characters beyond
// the necessary ones a client encodes.
func mine(level, name string) bool {
	if !strings.Contains(level, "%") {
		return level == name
	}
	decoded, err := url.PathUnescape(level)
	return err == nil && decoded == name
}

// levels returns the levels below the version: domain, family, …; nil if there are
// none, or an empty one among them.
func (a acl) levels(topic string) []string {
	rest, ok := strings.CutPrefix(topic, a.prefix)
	if !ok {
		return nil
	}
	l := strings.SplitN(rest, "/", maxLevels+1)
	for _, s := range l {
		if s == "" {
			return nil
		}
	}
	return l
}

// mayWrite decides on one topic name, without wildcards.
func (a acl) mayWrite(name string, role Role, topic string) bool {
	switch role {
	case Admin:
		return true
	case Observer:
		return false
	}
	l := a.levels(topic)
	if len(l) < 3 {
		return false
	}
	if role == Client && l[1] != "lock" {
		return false
	}
	switch l[1] {
	case "data": // data/{partition}/{topic}/{key}/{P}/{writer}
		return len(l) == 7 && mine(l[5], name)
	case "presence", "ask": // presence/{P}, ask/{P}
		return len(l) == 3 && mine(l[2], name)
	case "ep": // ep/{topic}/{P}/{endpoint}
		return len(l) == 5 && mine(l[3], name)
	case "node": // node/{to}/{P}
		return len(l) == 4 && mine(l[3], name)
	case "lock":
		return mayWriteLock(l[2:], name, role)
	}
	return false
}

// mayWriteLock decides on {topic}/…. The resource ids "join", "member" and "client"
// mean those families, whatever else follows.
func mayWriteLock(l []string, name string, role Role) bool {
	if len(l) < 2 {
		return false
	}
	if role == Client && l[1] != "client" {
		return false
	}
	switch l[1] {
	case "events", "view":
		return len(l) == 2
	case "join", "member": // join/{P}, member/{P}
		return len(l) == 3 && mine(l[2], name)
	case "client": // client/{P}/…
		return len(l) >= 4 && (mine(l[2], name) || role == Gateway)
	}
	return len(l) == 3 && l[2] == "state" // {resource}/state
}

// mayWill narrows mayWrite for wills: states, events and views, which name no
// sender, come from the living.
func (a acl) mayWill(role Role, topic string) bool {
	l := a.levels(topic)
	return role == Admin || len(l) > 1 && l[1] != "lock" || len(l) > 3 && named(l[3])
}

// named reports whether a participant's name follows in lock/{topic}/{family}/….
func named(family string) bool { return family == "join" || family == "member" || family == "client" }

// mayRead decides on one topic name that is about to be delivered. It is asked
// for each delivery, so it looks no further than it must.
func (a acl) mayRead(name string, role Role, topic string) bool {
	if role == Admin {
		return true
	}
	rest, ok := strings.CutPrefix(topic, a.prefix)
	if !ok {
		return role == Observer
	}
	_, rest, _ = strings.Cut(rest, "/") // the domain
	family, rest, _ := strings.Cut(rest, "/")
	switch family {
	case "node":
		to, _, _ := strings.Cut(rest, "/")
		return mine(to, name)
	case "lock":
		_, rest, _ = strings.Cut(rest, "/") // the lock topic
		if rest, ok := strings.CutPrefix(rest, "client/"); ok {
			client, _, _ := strings.Cut(rest, "/")
			return role == Gateway || mine(client, name)
		}
	}
	return true
}

// maySubscribe refuses a filter with a wildcard which can match nothing that the user may
// read; one without is a topic name, of which mayRead decides.
// Every other filter is granted, "#" too: mayRead holds foreign inboxes back
// message by message, so that a plain "#" is usable and leaks nothing.
func (a acl) maySubscribe(name string, role Role, filter string) bool {
	if role == Admin {
		return true
	}
	filter = unshare(filter)
	want := strings.Split(strings.TrimSuffix(a.prefix, "/"), "/")
	have := strings.Split(filter, "/")
	for _, w := range want {
		switch {
		case len(have) == 0:
			return role == Observer
		case have[0] == "#":
			return true
		case have[0] != "+" && have[0] != w:
			return role == Observer
		}
		have = have[1:]
	}
	at := func(i int) string {
		if i < len(have) {
			return have[i]
		}
		return ""
	}
	foreign := func(level string) bool { return level != "+" && level != "#" && level != "" && !mine(level, name) }
	switch at(1) {
	case "node":
		return !foreign(at(2))
	case "lock":
		return at(3) != "client" || role == Gateway || !foreign(at(4))
	}
	return true
}

// unshare strips $share/{group}/ from a filter.
func unshare(filter string) string {
	if head, rest, ok := strings.Cut(filter, "/"); ok && strings.EqualFold(head, "$share") {
		_, filter, _ = strings.Cut(rest, "/")
	}
	return filter
}

// validFilter reports whether a filter is well formed (MQTT 3.1.1, 4.7.1): a
// wildcard fills its level, and # is the last.
func validFilter(filter string) bool {
	if filter == "" {
		return false
	}
	for {
		level, rest, more := strings.Cut(filter, "/")
		if strings.ContainsAny(level, "+#") && len(level) > 1 || level == "#" && more {
			return false
		}
		if !more {
			return true
		}
		filter = rest
	}
}
