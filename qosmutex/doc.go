// Package qosmutex is a distributed lock with priorities over MQTT. The members
// of a lock topic form a tree; a token for each resource travels along it, so
// that one participant at a time is inside, the most important first.
//
// [Open] makes a participant a member of a lock topic, for as long as it lives; [Dial]
// makes one a client of a member that serves, which suits programs that come and go. With
// either, Lock waits for a resource and returns a [Hold], and Do runs a function inside
// (see [Locker]). A Hold may
// be lost while the application works, because the participant lost touch with
// the root of the topic for too long: [Hold.Check] tells, [Hold.Context] is
// canceled, and [Hold.Fence] is a number that rises with every entry, so that
// the protected resource itself can refuse a late writer.
//
// # One topic or many
//
// What a program locks one of, such as the zones of a warehouse, are resources of one lock
// topic: a resource that nobody uses costs nothing. Each topic that a member has open costs
// about six messages a second with the TTL of [LAN], for as long as it is open, and all its
// members hear of each one that looks for a place. Take several topics for things that need
// different models or a different TTL, or whose members are others.
//
// # What is promised
//
// Effects that check the fence are mutually exclusive. Holds that pass Check are
// mutually exclusive as long as clocks drift less than the configured bound. If the
// register is lost, or kept in memory only, fences rest on a wall clock that has not
// gone back.
//
// Who is the root of a topic is recorded in a register; a participant that has it
// ([WithRegister]) can become the root. All of them must have the same register.
//
// Package fence is a guard that checks the fence, for the side of the resource. Package
// papers runs other algorithms than PADME, behind the interface [Locker].
//
// # What others see
//
// With R = {prefix}/v1/{domain}, any MQTT client may read
//
//	R/lock/{topic}/{resource}/state   retained JSON: a [State], written by the root
//	R/lock/{topic}/events             JSON lines: an [Event] each, written by all members
//	R/lock/{topic}/view               retained JSON: a [View], written by the root
//
// They travel on a connection of their own, so that a slow reader never delays a
// lock.
//
// # Concurrency
//
// Everything exported may be used by several goroutines at once. What blocks takes a
// context and says so.
package qosmutex
