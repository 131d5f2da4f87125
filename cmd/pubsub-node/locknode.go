package main

import (
	"context"
	"log/slog"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
)

// nodeName is the participant that founds locks, and its user.
func nodeName() string { return "broker-" + hostName() }

// serveLocks joins the node that founds locks over a connection inside the
// process, and founds them until stop. If it ends before, the error is sent to
// ended.
func serveLocks(ctx context.Context, s *session, b *broker.Broker, secret string, timing qosmutex.Timing, metrics prometheus.Registerer, ended chan<- error) (stop func(), err error) {
	log := s.logger(slog.LevelWarn)
	opts := []pubsub.Option{pubsub.WithDialer(b.Dial), pubsub.WithDomain(s.domain), pubsub.WithPrefix(s.prefix), pubsub.WithLogger(log)}
	lockOpts := []qosmutex.Option{
		qosmutex.WithTiming(timing),
		qosmutex.WithNodePriority(math.MinInt64), // the root stays next to the broker
		qosmutex.WithMaxVoters(1),                // with which it lives and dies: commands that come and go have no say
		qosmutex.WithLogger(log),
	}
	if secret != "" {
		opts = append(opts, pubsub.WithCredentials(nodeName(), secret))
	}
	if metrics != nil {
		opts = append(opts, pubsub.WithMetrics(metrics))
		lockOpts = append(lockOpts, qosmutex.WithMetrics(metrics))
	}
	joining, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	p, err := pubsub.Join(joining, b.URL(), nodeName(), opts...)
	if err != nil {
		return nil, err
	}
	// Serving ends when stop says so, not when ctx does: it would hand the topics over.
	ctx, cancelServe := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := qosmutex.Serve(ctx, p, lockOpts...); ctx.Err() == nil {
			ended <- err
		}
	}()
	return func() {
		cancelServe()
		<-done
		leave(p)
	}, nil
}
