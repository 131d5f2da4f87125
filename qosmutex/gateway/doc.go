// Package gateway lets any MQTT client take locks. It turns JSON requests on
// R/lock/{topic}/client/{P}/request into requests of its own participant, and answers on
// R/lock/{topic}/client/{P}/answer. docs/clients.md is the contract for authors of such
// clients.
//
// [Serve] offers lock topics until its context ends. A qosmutex.Server keeps them open. If
// the same server also roots the topics, as in "pubsub-node broker", a client is answered
// without another message. Several gateways may run. For each lock topic, the one that
// holds the resource of that name in the lock topic [RoleTopic] is active, and the others
// stand by.
//
// # What a client may rely on
//
// A client's hold is a hold of the gateway's participant. An answer says for how many
// milliseconds the client may rely on its hold, counted from the moment at which it sent
// the request that is answered. That is never longer than the gateway's own hold is valid,
// allowing for clocks that drift by one percent, nor longer than the client's lease. The
// gateway releases nothing that a client may still rely on, unless the client asked for
// that. An effect that must not depend on clocks must check the fence.
//
// # Untrusted clients
//
// Everything that comes from clients is bounded: sizes, rates, requests per client,
// clients, lock topics. What is refused is counted by reason, and answered if there is a
// client to answer.
package gateway
