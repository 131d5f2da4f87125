package qosmutex

import (
	"encoding/binary"
	"fmt"
	"slices"

	"padme/qosmutex/classic"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sla"
	"padme/qosmutex/static"
)

// Algorithms lists the algorithms that WithAlgorithm takes: PADME first, then the
// classical ones, then those of the SLA paper. The slice is fresh.
func Algorithms() []protocol.Algorithm {
	return slices.Concat([]protocol.Algorithm{padme.Algorithm}, classic.All(), sla.Priority(), sla.Deadlines())
}

// AlgorithmNamed finds an algorithm by its name. The error wraps ErrInvalidConfig
// and lists the names there are.
func AlgorithmNamed(name string) (protocol.Algorithm, error) {
	var names []string
	for _, a := range Algorithms() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return protocol.Algorithm{}, fmt.Errorf("%w: no algorithm is named %q: take one of %q", ErrInvalidConfig, name, names)
}

// WithAlgorithm replaces the algorithm; the default is PADME. All members of a
// topic must run the same, which is checked when they first exchange a message. A
// static algorithm needs WithMembers as well; it repeats what the network loses, but
// knows no models and neither Any nor, mostly, TryLock.
//
// It tolerates no crash, and no Close of a member that others depend on. A member
// that is started again is refused by those who knew it, which is logged as a warning
// and counted as dropped, reason "peer". Until then there is no mutual exclusion: a first
// member that starts again has the token, or an empty queue, while another member may
// hold the lock.
// So end all members before any is started again.
//
// State topics are published by the first member from the events of the others:
// without WithEvents, or while it is not there, the holder is unknown.
func WithAlgorithm(a protocol.Algorithm) Option {
	return func(o *options) error {
		o.algorithm = a
		if a.New == nil {
			return fmt.Errorf("%w: algorithm %q has no constructor", ErrInvalidConfig, a.Name)
		}
		return nil
	}
}

// WithMembers names all participants of a topic that runs a static algorithm, in
// an order that all agree on: the first one is the server or has the token at the
// start, and trees are complete in this order, of WithFanout children each (2 if
// not given).
func WithMembers(ids ...string) Option {
	return func(o *options) error {
		o.members = slices.Clone(ids)
		for _, id := range ids {
			if err := checkName("member", id); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkMembers holds algorithm and members against each other.
func (o *options) checkMembers() error {
	switch {
	case o.algorithm.Static && len(o.members) == 0:
		return fmt.Errorf("%w: algorithm %q needs WithMembers: it does not find the others by itself", ErrInvalidConfig, o.algorithm.Name)
	case o.algorithm.Static && o.givenModels:
		return fmt.Errorf("%w: WithModels is for PADME; algorithm %q has no models", ErrInvalidConfig, o.algorithm.Name)
	case !o.algorithm.Static && len(o.members) > 0:
		return fmt.Errorf("%w: WithMembers is for static algorithms; %q finds the others by itself", ErrInvalidConfig, o.algorithm.Name)
	}
	return nil
}

// machine makes the topic's machine.
func (o *options) machine(cfg protocol.Config) (protocol.Machine, error) {
	a := o.algorithm
	if a.Static {
		a = static.OverLossyChannels(a)
		cfg.Members, cfg.Parents = o.members, nil
		cfg.Seed = seedOf(cfg.Self)
	}
	return a.New(cfg)
}

// seedOf gives everybody chances of its own: FNV-1a of the id, then of the
// incarnation. (Started from the incarnation, "b" and "c" that open within one
// microsecond get the same.)
func seedOf(n protocol.Node) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range binary.BigEndian.AppendUint64([]byte(n.ID), n.Incarnation) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
