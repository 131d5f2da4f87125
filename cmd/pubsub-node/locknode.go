package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/gateway"
	"padme/qosmutex/jsonlock"
	"padme/qosmutex/register"
)

// nodeName is the participant that creates locks, and its user.
func nodeName() string { return "broker-" + hostName() }

// servesLocks tells everybody that this participant serves clients, and whether it has a
// register to create locks in.
func servesLocks(register bool) pubsub.Option {
	data := map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks}
	if register {
		data[jsonlock.CreatesKey] = jsonlock.ServesLocks
	}
	return pubsub.WithUserData(data)
}

// lockNodeFanout is how many members are children of the lock node, which is where their
// messages go anyway: below another member each would make the way through the broker twice.
const lockNodeFanout = 64

// serveLocks joins the node that creates locks over a connection inside the process,
// and creates them, with these settings by default, and serves clients until stop; r keeps
// them. If it ends before, an error is sent to ended, which has room for two.
func serveLocks(ctx context.Context, s *session, b *broker.Broker, r register.Register, secret string, settings []qosmutex.Option, clients gateway.Option, metrics prometheus.Registerer, ended chan<- error) (stop func(), err error) {
	log := s.logger(slog.LevelWarn)
	opts := []pubsub.Option{pubsub.WithDialer(b.Dial), pubsub.WithTakeover(), pubsub.WithDomain(s.domain), pubsub.WithPrefix(s.prefix), pubsub.WithLogger(log), servesLocks(true)}
	lockOpts := append(settings,
		qosmutex.WithNodePriority(math.MinInt64), // the root stays next to the broker
		qosmutex.WithFanout(lockNodeFanout),
		qosmutex.WithRegister(r),
		qosmutex.Resume(), // the holds of clients
		qosmutex.WithLogger(log),
	)
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
	n := &lockNode{p: p}
	if n.server, err = qosmutex.NewServer(p, lockOpts...); err == nil {
		err = n.serve(joining, ended, gateway.WithLogger(log), gateway.WithMetrics(metrics), clients)
	}
	if err != nil {
		n.stop()
		return nil, err
	}
	return n.stop, nil
}

// lockNode is the participant beside the broker: the root of lock topics, which serves
// members and clients.
type lockNode struct {
	p       *pubsub.Participant
	server  *qosmutex.Server
	running sync.WaitGroup
}

// serve returns once clients are heard. Serving ends with the participant and not with a
// context, so that the lock topics end as in a crash: an orderly end would hand them over,
// or wait for somebody who takes them.
func (n *lockNode) serve(ctx context.Context, ended chan<- error, opts ...gateway.Option) error {
	heard, failed := make(chan struct{}), make(chan error, 1)
	serving := context.WithoutCancel(ctx)
	n.running.Go(func() { ended <- n.server.Run(serving) })
	n.running.Go(func() {
		err := gateway.Serve(serving, n.server, append(opts, gateway.WithReady(func() { close(heard) }))...)
		failed <- err
		ended <- err
	})
	select {
	case <-heard:
		return nil
	case err := <-failed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the lock node: %w", context.Cause(ctx))
	}
}

func (n *lockNode) stop() {
	leave(n.p)
	n.running.Wait()
	if n.server != nil {
		n.server.Close()
	}
}
