package main

import (
	"context"
	"log/slog"
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/register"
)

// nodeName is the participant that creates locks, and its user.
func nodeName() string { return "broker-" + hostName() }

// serveLocks joins the node that creates locks over a connection inside the process,
// and creates them until stop; r keeps them. If it ends before, the error is sent to
// ended.
func serveLocks(ctx context.Context, s *session, b *broker.Broker, r register.Register, secret string, timing qosmutex.Timing, metrics prometheus.Registerer, ended chan<- error) (stop func(), err error) {
	log := s.logger(slog.LevelWarn)
	opts := []pubsub.Option{pubsub.WithDialer(b.Dial), pubsub.WithTakeover(), pubsub.WithDomain(s.domain), pubsub.WithPrefix(s.prefix), pubsub.WithLogger(log)}
	lockOpts := []qosmutex.Option{
		qosmutex.WithTiming(timing),
		qosmutex.WithNodePriority(math.MinInt64), // the root stays next to the broker
		qosmutex.WithRegister(r),
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
	// Serving ends with the participant and not with ctx, so that the lock topics end as
	// in a crash: an orderly end would hand them over, or wait for somebody who takes them.
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- qosmutex.Serve(context.WithoutCancel(ctx), p, lockOpts...)
	}()
	return func() {
		leave(p)
		<-done
	}, nil
}
