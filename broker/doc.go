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
//     behind slows down its publishers, and one that stops reading or
//     acknowledging is disconnected after [Limits.WriteTimeout].
//   - A client that violates the protocol loses its connection. It never crashes
//     the process, and lengths that it announces allocate nothing beyond [Limits].
//
// What it does not promise: if the broker is killed, the last wills of connected
// clients are not sent. A broker is one process; there is no clustering.
package broker

// Where to look:
//
//	broker.go listen.go         Start, listeners
//	door.go turns.go            who has not said yet who it is; what they send, and passwords, in turns
//	conn.go connect.go          a connection, and its CONNECT
//	certificate.go websocket.go the ways in
//	users.go recall.go          names, passwords, roles, and whose password was right
//	access.go acl.go            may it connect, publish (mayWrite), subscribe or be sent it (OnACLCheck)
//	rules.go role.go            the same list for people; a user asks for its role
//
//	flow.go await.go            nothing at QoS 1 is lost: publishers wait for subscribers that lag
//	takeover.go                 a connection takes over the session of another
//	unread.go unacked.go        bytes that wait for connections
//	window.go order.go          Receive Maximum; retained topics in order
//	sendbuffer.go outlet.go     writes that never wait, of packets and of lock messages
//	direct.go ways.go           lock messages past mochi, and to whom
//	attached.go                 by calls
//	pipe.go flush.go            connections inside the process; what is queued at the end
//
//	subscribe.go                bounds of a SUBSCRIBE
//	replay.go search.go         retained messages for a new subscription
//	planned.go retain.go        what they cost while they wait; the tree that they are in
//	quota.go retained.go        what users may have retained, and what it costs
//	retaincharge.go expiry.go   wills and messages that expire
//	janitor.go willdelay.go     what the dead leave; wills that wait
//
//	limits.go limited.go        every limit, and what is logged when it is reached
//	usage.go share.go           what each user has, and how fast it may send
//	sessions.go idturns.go      sessions that outlive their connection; takeovers
//	persistence.go store.go     what survives kill -9, and its file
//	storewrite.go owed.go       changes, and those that could not be written yet
//	compact.go storelook.go     the file is rewritten, or has vanished
//	metrics.go log.go           figures; mochi's log
//	cut.go refusals.go          why connections ended or were refused
//	errors.go yield.go          errors; packets of one client between those of others
