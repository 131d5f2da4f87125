// Package pubsub is publish/subscribe in the style of DDS's DCPS over an MQTT 3.1.1 broker:
// participants, typed topics, writers, readers, quality of service, keyed instances and
// discovery. It is not DDS: there is no RTPS on the wire, and messages go through a broker.
// MQTT's own QoS, retained messages and sessions are only a transport; what this package
// promises, it promises end to end.
//
// # Layers
//
// A [Participant] is one process at the broker. It has an identity, an inbox for messages
// from other participants ([Participant.Send], [Participant.Inbox]), raw topics
// ([Participant.PublishRaw], [Participant.SubscribeRaw]) and a view of the other
// participants ([Participant.Peers]). Typed topics build on these: [NewTopic], [NewWriter],
// [NewReader]. A participant that is [Unannounced] has only raw topics and the view.
//
// # Topics
//
// With R = {prefix}/v1/{domain}, by default "padme/v1/default":
//
//	R/presence/{P}                                  retained JSON: birth, or death as the last will
//	R/node/{to}/{P}                                 inbox of "to", written by P
//	R/ask/{P}                                       P asks the others to announce themselves
//	R/ep/{topic}/{P}/{endpoint}                     retained JSON: a writer or reader of P
//	R/data/{partition}/{topic}/{key}/{P}/{writer}   samples
//
// P is the id of a participant. Every level is percent-encoded by [EncodeLevel].
//
// # Concurrency
//
// Everything exported may be used by several goroutines at once. Handlers given to Inbox
// and SubscribeRaw run one at a time, in order, on the goroutine that reads from the
// network, so they must only pass the message on. A content filter runs there too, possibly
// twice at once, and should only decide. No mutex is held while any of them runs. Code that
// reads samples, events or presences never runs there.
package pubsub
