package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/internal/limited"
)

// Limits by what they refuse, drop or leave unanswered.
const (
	limitRequests = iota
	limitClientRequests
	limitLockRequests
	limitClientRate
	limitNames
	limitUnread
	limitTopics
	limitClientTopics
	limitClients
	limitShare
	limitEnds
	limitUnknown
	limitDenials
	limitQuestions
	limitsEnd
	noLimit = -1
)

// limits names each after its flag, which begins with max, or else after what it bounds.
var limits = []limited.Limit{
	limitRequests:       {Name: "max-requests", Remedy: "end requests that nobody needs, start another gateway for some of the locks, or raise Limits.Requests (--max-requests)"},
	limitClientRequests: {Name: "max-client-requests", Remedy: "have the client release what it does not need, give its programs accounts of their own, or raise Limits.ClientRequests (--max-client-requests)"},
	limitLockRequests:   {Name: "max-client-requests-per-lock", Remedy: "have the client wait for answers before it asks for more, or raise Limits.ClientRequestsPerLock (--max-client-requests-per-lock)"},
	limitClientRate:     {Name: "max-client-rate", Remedy: "have the client send less: a renewal in a third of its lease is enough; or raise Limits.ClientRate (--max-client-rate)"},
	limitNames:          {Name: "max-client-names", Remedy: "use the same resources again, declare them, or raise Limits.ClientNames (--max-client-names)"},
	limitUnread:         {Name: "max-unread-requests", Remedy: "have clients send less, start another gateway for some of the locks, or raise Limits.Unread (--max-unread-requests)"},
	limitTopics:         {Name: "max-topics", Remedy: "use resources of one lock in place of many locks, or raise TopicLimits.Total (--max-topics), half of which is for clients that speak JSON"},
	limitClientTopics:   {Name: "max-topics-per-user", Remedy: "use resources of one lock in place of many locks, or raise TopicLimits.PerUser (--max-topics-per-user), half of which a client that speaks JSON has"},
	limitClients:        {Name: "clients", Remedy: "have clients keep their names, or raise Limits.Requests (--max-requests), which is also how many clients are remembered"},
	limitShare:          {Name: "shared-rate", Remedy: "have clients send less, or raise Limits.ClientRate (--max-client-rate), a quarter of which each client has to itself and three times of which all share"},
	limitEnds:           {Name: "session-ends", Remedy: "have the client keep its sessions; what is not read ends with its lease"},
	limitUnknown:        {Name: "unknown-answers", Remedy: "have the client acquire again, under another id, what it is told is unknown"},
	limitDenials:        {Name: "denials", Remedy: "see what else is beyond its limit: those who are turned away are too many to be told"},
	limitQuestions:      {Name: "questions", Remedy: "have the client ask seldom for the settings of a lock that is not open yet"},
}

// Bounds without a flag: others would not make clients better off.
const (
	// endRate is for ends of sessions, which all topics of their client hear, each of them counted:
	// in 256 topics twenty ends a second, and at once twice as many as a user has connections,
	// which may all be lost at one moment.
	endRate, endBurst = 20 * 256, 200 * 256
	// unknownRate is for answers that something is not known, of each client and beyond that of
	// all: few enough at once that answers to others find room on the connection.
	unknownRate, unknownPool = 20, 500
	// deniedRate is for answers a second to clients that are turned away: as unknownPool.
	deniedRate = 1000
	// maxShows bounds the questions about one lock topic that wait until it is open.
	maxShows = 1 << 10
)

// most is what a limit is.
func (g *gateway) most(limit int) int {
	total, perClient := g.mostTopics()
	l := &g.limits
	return [limitsEnd]int{
		limitRequests: l.Requests, limitClientRequests: l.ClientRequests, limitLockRequests: l.ClientRequestsPerLock,
		limitClientRate: l.ClientRate, limitNames: l.ClientNames, limitUnread: l.Unread,
		limitTopics: total, limitClientTopics: perClient, limitClients: l.clients(), limitShare: int(l.pool()),
		limitEnds: endRate / 256, limitUnknown: unknownRate, limitDenials: deniedRate, limitQuestions: maxShows,
	}[limit]
}

// beyond counts that a client is beyond a limit in a lock, and names it in the log now and then.
// Each refusal by a limit comes here. The caller holds no mutex: a log may block.
func (g *gateway) beyond(limit int, lock, client string, at time.Time) {
	if g.reached.Count(limit, client, at) {
		g.reached.Tell(limit, client, g.most(limit), "lock", lock)
	}
}

var limitedDesc = prometheus.NewDesc("qosmutex_gateway_limited_total", "Messages of foreign clients that were refused, dropped or left unanswered, by the limit that they were beyond.", []string{"limit"}, nil)

// limitedTotal makes the counts a prometheus.Collector.
type limitedTotal struct{ *limited.Log }

func (l limitedTotal) Describe(ch chan<- *prometheus.Desc) { ch <- limitedDesc }

func (l limitedTotal) Collect(ch chan<- prometheus.Metric) {
	l.Each(func(limit string, n uint64) {
		ch <- prometheus.MustNewConstMetric(limitedDesc, prometheus.CounterValue, float64(n), limit)
	})
}
