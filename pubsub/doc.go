// Package pubsub is publish/subscribe in the style of DDS's DCPS over an MQTT
// 3.1.1 broker: participants, typed topics, writers, readers, quality of
// service, keyed instances and discovery. It is not DDS: there is no RTPS on
// the wire and a broker stands in the middle. MQTT's own QoS, retained messages
// and sessions are transport only; what this package promises, it promises from
// end to end.
//
// # Layers
//
// A [Participant] is one process at the broker. It has an identity, an inbox
// for messages from other participants ([Participant.Send],
// [Participant.Inbox]), raw topics ([Participant.PublishRaw],
// [Participant.SubscribeRaw]) and a view of who else is there
// ([Participant.Peers]). Typed topics stand on top: [NewTopic], [NewWriter],
// [NewReader]. A participant that is [Unannounced] has raw topics and the view alone.
//
// # Topics
//
// With R = {prefix}/v1/{domain}, by default "padme/v1/default":
//
//	R/presence/{P}                                  retained JSON: birth, or death as the last will
//	R/node/{to}/{P}                                 inbox of "to", written by P
//	R/ask/{P}                                       P asks who is there
//	R/ep/{topic}/{P}/{endpoint}                     retained JSON: a writer or reader of P
//	R/data/{partition}/{topic}/{key}/{P}/{writer}   samples
//
// P is the id of a participant. Every level is percent-encoded by
// [EncodeLevel].
//
// # Concurrency
//
// Everything exported may be used by several goroutines at once. Handlers given
// to Inbox and SubscribeRaw run one at a time, in order, on the goroutine which
// reads from the network: they must only hand the message on. A content filter
// runs there too, possibly twice at once, and should only decide. No mutex is held
// while any of them runs. Code that reads samples, events or presences never runs
// there.
package pubsub
