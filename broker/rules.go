package broker

import "slices"

// Rule is one row of the access list that [Config].Users enforces, for people and
// for the access lists of other brokers.
type Rule struct {
	// Topic is an MQTT filter below {Prefix}/v1/{domain}, with P in place of the user's own
	// name.
	Topic string
	// Write and Read are the roles that may write and read. An administrator may do both
	// everywhere.
	Write, Read []Role
	What        string
}

var (
	nobody   []Role
	nodes    = []Role{Member, Gateway}
	writers  = []Role{Member, Client, Gateway}
	everyone = []Role{Member, Client, Gateway, Observer}
)

// Rules returns the access list as a table, for people and for other brokers. acl.go
// enforces the same by code. What no row allows a user to write is refused. What no row
// mentions can be read.
func Rules() []Rule {
	return []Rule{
		{"presence/P", nodes, everyone, "birth and death"},
		{"presence/+", nobody, everyone, ""},
		{"ask/P", nodes, everyone, "who asks who is there"},
		{"ask/+", nobody, everyone, ""},
		{"ep/+/P/+", nodes, everyone, "writers and readers of a topic"},
		{"ep/+/+/+", nobody, everyone, ""},
		{"data/+/+/+/P/+", nodes, everyone, "samples"},
		{"data/+/+/+/+/+", nobody, everyone, ""},
		{"node/+/P", nodes, nobody, "messages to others"},
		{"node/P/+", nobody, everyone, "the own inbox"},
		{"lock/+/join/P", nodes, everyone, "who looks for a parent"},
		{"lock/+/join/+", nobody, everyone, ""},
		{"lock/+/member/P", nodes, everyone, "the own place in the tree"},
		{"lock/+/member/+", nobody, everyone, ""},
		{"lock/+/+/state", nodes, everyone, "who holds it; any member may be the root"},
		{"lock/+/events", nodes, everyone, "what happened"},
		{"lock/+/view", nodes, everyone, "the root's word; any member may be it"},
		{"lock/+/client/P/#", writers, everyone, "requests and answers of clients without our library"},
		{"lock/+/client/+/#", []Role{Gateway}, []Role{Gateway}, ""},
	}
}

// MayWrite reports whether a role may write under the rule.
func (r Rule) MayWrite(role Role) bool { return slices.Contains(r.Write, role) }

// MayRead reports whether a role may read under the rule.
func (r Rule) MayRead(role Role) bool { return slices.Contains(r.Read, role) }
