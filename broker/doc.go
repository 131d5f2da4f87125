// Package broker is an MQTT broker to embed: listeners for TCP and WebSocket
// (with or without TLS), in-process connections, users with an access list for
// the padme topics, persistence that survives a killed process, and metrics.
//
// It speaks MQTT 3.1.1 and 5 at QoS 0 and 1. A publication at QoS 2 is
// accepted, a subscription at QoS 2 is granted QoS 1.
//
// What it promises beyond the protocol:
//   - PUBACK is sent after the message was queued for every matching session,
//     and, with a DataDir, written for every session that outlives its
//     connection.
//   - A message at QoS 1 is never dropped silently: a subscriber that falls
//     behind slows its publishers down, and one that stops reading or
//     acknowledging is disconnected after [Limits.WriteTimeout].
//   - A client which sends what it should not loses its connection; it never
//     takes the process with it, and its announced lengths allocate nothing
//     beyond [Limits].
//
// What it does not promise: the last wills of clients that were connected when
// the broker was killed are not sent, and a broker is one process: there is no
// clustering.
package broker
