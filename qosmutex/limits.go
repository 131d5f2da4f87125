package qosmutex

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/qosmutex/internal/limited"
)

// TopicLimits bounds the lock topics that a Server has open. An open topic costs its root
// messages and a write of its record several times in a TTL, whether it is used or not. So
// a topic whose TTL is n times shorter than the server's counts as n topics. A zero field
// means its default.
type TopicLimits struct {
	// Total is how many topics may be open at a time, 1024 by default. Two cores that do
	// nothing else can serve about three times as many with the TTL of LAN.
	Total int
	// PerUser is how many of them may be open because one participant or client named them,
	// 512 by default: one program may well need hundreds. The last quarter of Total is
	// reserved for users that have at most a sixteenth of PerUser open, so that a few users
	// that name many lock topics cannot keep others from opening new ones.
	PerUser int
	// Idle is how long a topic may go unused before the server closes it, 10 minutes by
	// default: much longer than people and programs pause. Servers that stand by for each
	// other close it one after the other. Topics with declared settings stay open. The
	// register keeps a closed topic's record. If the topic is reopened, its fences start
	// above every fence already issued.
	Idle time.Duration
	// Named is how many topics have metrics under their own names, 100 by default. The
	// metrics of all others are added up under an empty name. A name keeps its place for a
	// day after its topic was closed, so a client that names one topic after the other does
	// not create new series.
	Named int
}

// leastIdle is how long a topic is open at least: opening it costs more than keeping it.
const leastIdle = time.Second

func (l TopicLimits) withDefaults() (TopicLimits, error) {
	if l.Total < 0 || l.PerUser < 0 || l.Named < 0 || l.Idle < 0 || l.Idle > 0 && l.Idle < leastIdle {
		return l, fmt.Errorf("%w: limits %+v: give numbers of topics above 0, and %v or more for Idle; 0 is the default", ErrInvalidConfig, l, leastIdle)
	}
	if l.Total == 0 {
		l.Total = maxServed
	}
	if l.PerUser == 0 {
		l.PerUser = maxServed / 2
	}
	if l.Idle == 0 {
		l.Idle = 10 * time.Minute
	}
	if l.Named == 0 {
		l.Named = maxNamed
	}
	return l, nil
}

// WithTopicLimits bounds the topics that a Server opens. It has no effect on Open.
func WithTopicLimits(l TopicLimits) Option {
	return func(o *options) (err error) {
		o.limits, err = l.withDefaults()
		return err
	}
}

// TopicLimits returns the limits in force, with defaults filled in.
func (s *Server) TopicLimits() TopicLimits {
	if s == nil {
		return TopicLimits{}
	}
	return s.limits
}

// Why a topic is not opened.
const (
	limitTotal = iota
	limitPerUser
	noLimit = -1
)

// topicLimits names them after their flags.
var topicLimits = []limited.Limit{
	limitTotal:   {Name: "max-topics", Remedy: "use resources of one lock in place of many locks, give up idle ones sooner (--idle-topics), or raise TopicLimits.Total (--max-topics)"},
	limitPerUser: {Name: "max-topics-per-user", Remedy: "use resources of one lock in place of many locks, give programs accounts of their own, or raise TopicLimits.PerUser (--max-topics-per-user)"},
}

// account is what the open topics of a server count, together and by who named them. It is
// guarded by the server's mu.
type account struct {
	total   int
	byUser  map[string]int // not those that nobody named
	givenUp int
	reached *limited.Log
	untold  []refusal // that are worth a line
}

// refusal is of a topic that was not opened for a user.
type refusal struct {
	limit, most int
	user, name  string
}

func newAccount(log *slog.Logger) account {
	return account{byUser: map[string]int{}, reached: limited.New(log, "user", topicLimits)}
}

// charge notes that the topics of a user count more by n, or less.
func (a *account) charge(user string, n int) {
	a.total += n
	if user == "" {
		return
	}
	if a.byUser[user] += n; a.byUser[user] <= 0 {
		delete(a.byUser, user)
	}
}

// weightOf is what a topic with this TTL counts; 0 is the server's.
func (s *Server) weightOf(ttl time.Duration) int {
	own := time.Duration(s.timing.TTL)
	if ttl <= 0 || ttl >= own {
		return 1
	}
	return int((own + ttl - 1) / ttl)
}

// exceeded is the limit that keeps a user from another topic, or noLimit, and what it is for it. The caller holds mu.
func (s *Server) exceeded(user string, weight int) (limit, most int) {
	most = s.most(user, weight)
	switch {
	case user != "" && s.account.byUser[user]+weight > s.limits.PerUser:
		return limitPerUser, s.limits.PerUser
	case s.account.total+weight > most:
		return limitTotal, most
	}
	return noLimit, most
}

// most is how many topics may be open if a user gets another one: the last quarter is for those that
// have had none or few opened, unless one may have all. The caller holds mu.
func (s *Server) most(user string, weight int) int {
	l, has := &s.limits, s.account.byUser[user]
	if user == "" || has == 0 || has+weight <= l.PerUser/16 || l.PerUser >= l.Total {
		return l.Total
	}
	return l.Total - l.Total/4
}

// reweigh counts a topic as what its TTL turned out to be: its record may have another than
// whoever named it asked for.
func (s *Server) reweigh(e *servedTopic, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.weightOf(ttl)
	s.account.charge(e.user, is-e.weight)
	e.weight = is
}

// noteRefused counts a topic that is not opened. The caller holds mu, and gives it back by unlock.
func (s *Server) noteRefused(name, user string, limit, most int) {
	if s.account.reached.Count(limit, user, time.Now()) {
		s.account.untold = append(s.account.untold, refusal{limit, most, user, name})
	}
}

// unlock gives mu back, and then logs who was refused a topic meanwhile: a log may block.
func (s *Server) unlock() {
	untold := s.account.untold
	s.account.untold = nil
	s.mu.Unlock()
	for _, r := range untold {
		s.account.reached.Tell(r.limit, r.user, r.most, "lock", r.name)
	}
}

var (
	topicsDesc   = prometheus.NewDesc("qosmutex_server_topics", "Lock topics that the server has open, those with a short TTL counted several times.", nil, nil)
	usersDesc    = prometheus.NewDesc("qosmutex_server_topics_most", "The same, of the user that has named most.", nil, nil)
	tooManyDesc  = prometheus.NewDesc("qosmutex_server_refused_total", "Lock topics that were not opened because too many are, by the limit.", []string{"limit"}, nil)
	unnamedDesc  = prometheus.NewDesc("qosmutex_server_topics_unnamed", "Lock topics whose metrics are added up, as more are open than may have metrics under their names.", nil, nil)
	vanishedDesc = prometheus.NewDesc("qosmutex_server_file_vanished", "1 while a file in which the server keeps its lock topics is not at its path any more: they are lost when it ends.", nil, nil)
	givenUpDesc  = prometheus.NewDesc("qosmutex_server_given_up_total", "Lock topics that the server has let go of because nobody used them.", nil, nil)
)

// serverMetrics are those of a server.
type serverMetrics struct{ *Server }

// Describe implements prometheus.Collector.
func (s serverMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{topicsDesc, usersDesc, tooManyDesc, givenUpDesc, unnamedDesc, vanishedDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s serverMetrics) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	a, most := &s.account, 0
	for _, n := range a.byUser {
		most = max(most, n)
	}
	gauge, counter, vanished := prometheus.GaugeValue, prometheus.CounterValue, 0.0
	if s.vanished.Load() {
		vanished = 1
	}
	all := []prometheus.Metric{
		prometheus.MustNewConstMetric(topicsDesc, gauge, float64(a.total)), prometheus.MustNewConstMetric(usersDesc, gauge, float64(most)),
		prometheus.MustNewConstMetric(givenUpDesc, counter, float64(a.givenUp)), prometheus.MustNewConstMetric(unnamedDesc, gauge, float64(s.labels.crowd.size())),
		prometheus.MustNewConstMetric(vanishedDesc, gauge, vanished),
	}
	s.mu.Unlock()
	a.reached.Each(func(limit string, n uint64) {
		all = append(all, prometheus.MustNewConstMetric(tooManyDesc, counter, float64(n), limit))
	})
	for _, m := range all {
		ch <- m
	}
}

// registerMetrics makes the server's metrics visible until unregister.
func (s *Server) registerMetrics() error {
	if s.metrics == nil {
		return nil
	}
	r := prometheus.WrapRegistererWith(prometheus.Labels{"participant": s.p.ID()}, s.metrics)
	s.labels = newLabels(s.limits.Named)
	if err := r.Register(serverMetrics{s}); err != nil {
		return fmt.Errorf("%w: metrics of the server at participant %q: %w", ErrInvalidConfig, s.p.ID(), err)
	}
	if err := prometheus.WrapRegistererWith(prometheus.Labels{"lock": ""}, r).Register(s.labels.crowd); err != nil {
		r.Unregister(serverMetrics{s})
		return fmt.Errorf("%w: metrics of the lock topics of participant %q: %w", ErrInvalidConfig, s.p.ID(), err)
	}
	s.registered = r
	return nil
}

func (s *Server) unregister() {
	if s.registered != nil {
		s.registered.Unregister(serverMetrics{s})
		prometheus.WrapRegistererWith(prometheus.Labels{"lock": ""}, s.registered).Unregister(s.labels.crowd)
	}
}

// name has a topic of the server take its label in the metrics from it.
func (s *Server) name(o *options) error {
	o.labels = s.labels
	return nil
}
