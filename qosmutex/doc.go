// Package qosmutex is a distributed lock with priorities over MQTT. The members of a lock
// topic form a tree. A token for each resource travels along it, so one participant at a
// time holds the resource, the most important first.
//
// [Open] makes a participant a member of a lock topic for as long as it lives. [Dial] makes
// it a client of a member that serves, which suits programs that come and go. With either,
// Lock waits for a resource and returns a [Hold], and Do runs a function while holding it
// (see [Locker]). A Hold may be lost while the application works, if the participant loses
// contact with the root of the topic for too long: [Hold.Check] reports that,
// [Hold.Context] is canceled, and [Hold.Fence] is a number that rises with every entry, so
// that the protected resource itself can refuse a late writer.
//
// # One topic or many
//
// Put interchangeable things, such as warehouse zones, in one lock topic as separate
// resources: a resource that is not in use costs nothing. Each topic that a member has open
// costs about six messages a second with the TTL of [LAN] for as long as it is open, and
// every member of a topic hears of each participant that looks for a place in its tree. Use
// several topics for things that need different models or a different TTL, or that
// different participants use.
//
// # What is promised
//
// Effects that check the fence are mutually exclusive. Holds that pass Check are mutually
// exclusive as long as clocks drift less than the configured bound. If the register is
// lost, or kept only in memory, fences rely on a wall clock that has not gone back.
//
// A register records which participant is the root of a topic. A participant that has
// access to it ([WithRegister]) can become the root. All of these participants must use the
// same register.
//
// Package fence is a guard that checks fences on the side of the resource. Package papers
// runs other algorithms than PADME, behind the interface [Locker].
//
// # What others see
//
// With R = {prefix}/v1/{domain}, any MQTT client may read
//
//	R/lock/{topic}/{resource}/state   retained JSON: a [State], written by the root
//	R/lock/{topic}/events             JSON lines: an [Event] each, written by all members
//	R/lock/{topic}/view               retained JSON: a [View], written by the root
//
// These messages use a separate connection, so a slow reader never delays a lock.
//
// # Concurrency
//
// Everything exported may be used by several goroutines at once. What blocks takes a
// context and says so.
package qosmutex
