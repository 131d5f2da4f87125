// Package gateway lets any MQTT client take locks: it turns JSON requests on
// R/lock/{topic}/client/{P}/request into requests of its own participant, and
// answers on R/lock/{topic}/client/{P}/answer. docs/clients.md is the contract, for
// people who write such clients.
//
// [Serve] offers lock topics until it is told to stop. It has them open by a
// qosmutex.Server: whoever roots topics by the same server, as "pubsub-node broker" does,
// answers a client without another message. Several gateways may run: for
// each lock topic the one that holds the resource of that name in the lock topic
// [RoleTopic] is active, the others stand by.
//
// # What a client may believe
//
// A client's hold is a hold of the gateway's participant. An answer says for how many
// milliseconds the client may believe that it is inside, counted from the instant at
// which it sent the request that is answered. That is never longer than the gateway's
// own hold is valid, allowing for clocks that drift by one per cent, nor longer than
// the client's lease. The gateway releases nothing that a client may still believe it
// holds, unless the client asked for that. What must not rest on clocks checks the
// fence.
//
// # Strangers
//
// Everything that comes from clients is bounded: sizes, rates, requests per client,
// clients, lock topics. What is refused is counted by reason, and answered where there
// is somebody to answer.
package gateway
