package qosmutex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/protocol"
	"padme/qosmutex/register/local"
)

// asks has a participant look for the root of a lock topic, as Open does, and come no more.
func asks(t *testing.T, p *pubsub.Participant, topic string, ttl time.Duration) {
	t.Helper()
	m := protocol.Message{Kind: protocol.KindJoin, From: protocol.Node{ID: p.ID(), Incarnation: 1}, TTL: protocol.Duration(ttl)}
	if err := p.PublishRaw(pubsub.Main, []string{"lock", topic, "join", p.ID()}, protocol.AppendMessage(nil, &m), false); err != nil {
		t.Fatal(err)
	}
}

// running is a server that opens what others ask for, until the test ends.
func running(t *testing.T, p *pubsub.Participant, opts ...Option) (s *Server, end func()) {
	t.Helper()
	s = newServer(t, p, opts...)
	ctx, cancel := context.WithCancel(context.Background())
	var listening sync.WaitGroup
	listening.Go(func() { _ = s.Run(ctx) })
	time.Sleep(time.Second) // it is subscribed
	return s, func() { cancel(); listening.Wait(); s.Close() }
}

// gathered is the value of a metric with one label value, or without labels but the
// participant's if that is empty.
func gathered(t *testing.T, r *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if f.GetName() == name && (l.GetValue() == label || label == "" && len(m.Label) == 1) {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("no metric %s{%s}", name, label)
	return 0
}

// A participant has as many topics opened as it may, and others theirs, the last quarter of them one
// each; what was refused is counted, and told once.
func TestTopicsOfOneUserAreBounded(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q, polite, late := join("node"), join("mallory"), join("alice"), join("late")
		defer p.Close(ctx)
		defer q.Close(ctx)
		defer late.Close(ctx)
		defer polite.Close(ctx)
		var log bytes.Buffer
		metrics := prometheus.NewRegistry()
		s, end := running(t, p, WithRegister(local.Memory()), clock, WithMetrics(metrics),
			WithTopicLimits(TopicLimits{Total: 40, PerUser: 20}), WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))))
		for i := range 100 {
			asks(t, q, fmt.Sprint("invented-", i), 0)
		}
		time.Sleep(time.Second)
		if n := gathered(t, metrics, "qosmutex_server_topics", ""); n != 20 {
			t.Errorf("%v topics are open", n)
		}
		if n := gathered(t, metrics, "qosmutex_server_refused_total", "max-topics-per-user"); n != 80 {
			t.Errorf("%v were refused", n)
		}
		logged := func(want int, line string) {
			t.Helper()
			if n := strings.Count(log.String(), `msg="limit reached" `+line+` remedy="use resources`); n != want {
				t.Errorf("%d lines, not %d: %s\n%s", n, want, line, &log)
			}
		}
		logged(1, "limit=max-topics-per-user most=20 user=mallory lock=invented-20")
		topic, err := Open(ctx, polite, "crane", clock)
		if err != nil {
			t.Fatal(err)
		}
		once(t, topic, "hook")
		if err := topic.Close(ctx); err != nil {
			t.Error(err)
		}
		for i := range 30 {
			asks(t, polite, fmt.Sprint("mine-", i), 0)
		}
		time.Sleep(time.Second)
		if n := gathered(t, metrics, "qosmutex_server_topics_most", ""); n != 20 {
			t.Errorf("%v topics of one user are open", n)
		}
		if n := gathered(t, metrics, "qosmutex_server_topics", ""); n != 30 {
			t.Errorf("%v topics are open, and three quarters are 30", n)
		}
		logged(1, "limit=max-topics most=30 user=alice lock=mine-9")
		for i := range 2 {
			asks(t, late, fmt.Sprint("late-", i), 0)
		}
		for i := range 9 {
			if _, err := s.Topic(ctx, fmt.Sprint("own-", i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Topic(ctx, "one more"); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "40") {
			t.Errorf("one more in all: %v", err)
		}
		if n := gathered(t, metrics, "qosmutex_server_refused_total", "max-topics"); n != 21+1+1 {
			t.Errorf("%v were refused for the total", n)
		}
		logged(1, "limit=max-topics most=30 user=late lock=late-1")
		for i := range 3 {
			time.Sleep(time.Minute / 2)
			asks(t, q, fmt.Sprint("again-", i), 0)
			asks(t, late, fmt.Sprint("late again-", i), 0)
		}
		time.Sleep(time.Second)
		// Idle topics are let go meanwhile, maybe before one of them asks.
		for who, most := range map[string]int{"limit=max-topics-per-user most=20 user=mallory": 2, "limit=max-topics most=40 user=late": 2} {
			if n := strings.Count(log.String(), who); n > most {
				t.Errorf("%d lines in a minute and a half: %s: %s", n, who, &log)
			}
		}
		end()
		if families, _ := metrics.Gather(); len(families) > 0 {
			t.Errorf("metrics outlive the server: %v", families)
		}
	})
}

// A topic with a short TTL costs its root more, and counts more, also if that is known from
// its record only.
func TestShortTTLCountsMore(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("node"), join("mallory")
		defer p.Close(ctx)
		defer q.Close(ctx)
		metrics := prometheus.NewRegistry()
		s, end := running(t, p, WithRegister(local.Memory()), clock, WithMetrics(metrics), WithTopicLimits(TopicLimits{PerUser: 20}))
		defer end()
		for i := range 100 {
			asks(t, q, fmt.Sprint("quick-", i), MinTTL)
		}
		time.Sleep(time.Second)
		s.mu.Lock()
		open := len(s.topics)
		s.mu.Unlock()
		if open != 3 { // of six each: the server's TTL is 3 s
			t.Errorf("%d topics are open", open)
		}
		if err := s.Remove(ctx, "quick-0"); err != nil {
			t.Fatal(err)
		}
		if n := gathered(t, metrics, "qosmutex_server_topics", ""); n != 12 {
			t.Errorf("topics count %v", n)
		}
		asks(t, q, "quick-0", 0)
		time.Sleep(time.Second)
		if n := gathered(t, metrics, "qosmutex_server_topics", ""); n != 13 {
			t.Errorf("topics count %v with one whose TTL was removed, too", n)
		}
		s.letGo([]*servedTopic{s.served("quick-1")}, 0, func() bool { return true })
		if n := gathered(t, metrics, "qosmutex_server_topics", ""); n != 7 {
			t.Errorf("topics count %v without one that nobody used", n)
		}
		asks(t, q, "quick-1", 0)
		time.Sleep(time.Second)
		if n := gathered(t, metrics, "qosmutex_server_topics", ""); n != 13 {
			t.Errorf("topics count %v with one that has its TTL by its record", n)
		}
	})
}

// What nobody uses for long is given up, and goes on above its fences when it is named
// again; what is used now and then, held or declared stays.
func TestIdleTopicsAreGivenUp(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		p, q := join("node"), join("robot")
		defer p.Close(ctx)
		defer q.Close(ctx)
		metrics := prometheus.NewRegistry()
		const idle = 10 * time.Minute
		s, end := running(t, p, WithRegister(local.Memory()), clock, WithMetrics(metrics), WithTopicLimits(TopicLimits{Idle: idle}))
		defer end()
		asks(t, q, "named", 0)
		unused, declared, held, often, shared := topicOf(t, s, "unused"), topicOf(t, s, "declared"), topicOf(t, s, "held"), topicOf(t, s, "often"), topicOf(t, s, "shared")
		if err := declared.Declare(ctx, WithResources("hook")); err != nil {
			t.Fatal(err)
		}
		h, err := held.Lock(ctx, "hook")
		if err != nil {
			t.Fatal(err)
		}
		fence := once(t, unused, "hook")
		for range 12 {
			once(t, often, "hook")
			member, err := Open(ctx, q, "shared", clock) // comes and goes
			if err != nil {
				t.Fatal(err)
			}
			if err := member.Close(ctx); err != nil {
				t.Fatal(err)
			}
			time.Sleep(idle / 3)
		}
		if unused.Err() == nil || s.served("named") != nil {
			t.Errorf("what nobody uses is open: %v, %v", unused.Err(), s.served("named"))
		}
		for _, topic := range []*Topic{declared, held, often, shared} {
			if err := topic.Err(); err != nil {
				t.Errorf("%s is closed: %v", topic.Name(), err)
			}
		}
		if err := h.Unlock(); err != nil {
			t.Error(err)
		}
		if n := gathered(t, metrics, "qosmutex_server_given_up_total", ""); n != 2 {
			t.Errorf("%v were given up", n)
		}
		if n := gathered(t, metrics, "qosmutex_server_topics", ""); n != 4 {
			t.Errorf("%v topics are open", n)
		}
		if again := once(t, topicOf(t, s, "unused"), "hook"); again <= fence {
			t.Errorf("fence %d after %d", again, fence)
		}
	})
}

// Servers that only stand by for each other use nothing: what no one else uses is given up by
// each of them, and what somebody uses at any of them stays.
func TestIdleTopicsOfServersThatStandByAreGivenUp(t *testing.T) {
	virtuallyAs(t, func(t *testing.T, join func(string, ...pubsub.Option) *pubsub.Participant, clock Option) {
		ctx := context.Background()
		q := join("robot")
		defer q.Close(ctx)
		const idle = time.Minute
		register := local.Memory()
		creates := pubsub.WithUserData(map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks, jsonlock.CreatesKey: jsonlock.ServesLocks})
		var servers []*Server
		for _, id := range []string{"v1", "v2", "v3"} {
			p := join(id, creates)
			defer p.Close(ctx)
			s, end := running(t, p, WithRegister(register), clock, WithTopicLimits(TopicLimits{Idle: idle}))
			defer end()
			servers = append(servers, s)
		}
		asks(t, q, "named", 0)
		asks(t, q, "often", 0)
		fence := once(t, topicOf(t, servers[1], "named"), "hook")
		for range 25 {
			once(t, topicOf(t, servers[2], "often"), "hook")
			time.Sleep(idle / 5)
		}
		for _, s := range servers {
			if s.served("named") != nil {
				t.Errorf("%s has an unused topic open", s.p.ID())
			}
		}
		if err := topicOf(t, servers[2], "often").Err(); err != nil {
			t.Error(err)
		}
		if again := once(t, topicOf(t, servers[2], "named"), "hook"); again <= fence {
			t.Errorf("fence %d after %d", again, fence)
		}
	})
}

// TestTopicThatWasGivenUpIsOpenedForUsers: not for a server that stands by and looks for the
// next root, which is about to let go of it, too.
func TestTopicThatWasGivenUpIsOpenedForUsers(t *testing.T) {
	virtually(t, func(t *testing.T, join func(string) *pubsub.Participant, clock Option) {
		p := join("v1")
		defer p.Close(context.Background())
		s, end := running(t, p, WithRegister(local.Memory()), clock)
		defer end()
		s.mu.Lock()
		s.givenUp["crane"], s.serving["v2"] = true, true
		s.mu.Unlock()
		for _, from := range []string{"v2", "robot"} {
			seeks := protocol.Message{Kind: protocol.KindJoin, From: protocol.Node{ID: from, Incarnation: 1}}
			s.heard(pubsub.RawMessage{Levels: []string{"lock", "crane", "join", from}, Payload: protocol.AppendMessage(nil, &seeks)}, true)
			if opens := s.served("crane") != nil; opens != (from == "robot") {
				t.Errorf("opened for %s: %v", from, opens)
			}
		}
	})
}

func TestTopicLimits(t *testing.T) {
	for _, l := range []TopicLimits{{Total: -1}, {PerUser: -1}, {Named: -1}, {Idle: -1}, {Idle: time.Millisecond}} {
		if _, err := optionsOf([]Option{WithTopicLimits(l)}); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
