// Package protocol is the ground floor of the lock: the messages that
// participants exchange, their msgpack form, and the contract of a Machine, the
// deterministic state machine that every algorithm is.
//
// A machine has no goroutine, channel, lock, clock or random source. Messages,
// application calls and the time go in through [Machine.Step]; messages, grants,
// losses and the next wake-up time come out in an [Output]. The same machine
// therefore runs over MQTT, in a simulator and under a model checker.
package protocol
