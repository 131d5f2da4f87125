// Package papers runs the algorithms of the literature over MQTT, to compare and to teach
// them: a central server, Ricart and Agrawala's, Maekawa's, Raymond's tree and the rest of
// [Algorithms]. They have a fixed list of members. PADME, which does without one and
// survives the death of a member, is run by qosmutex.Open.
//
// [Open] makes a participant one of the members. Its [Topic] is a qosmutex.Locker, so what
// an application does with locks need not know which algorithm decides.
//
// Nothing here tolerates a crash, or the Close of a member that others depend on. A
// hold has no TTL: it ends with Unlock or Close. A member that is started again is refused
// by those who knew it, which they log. Until then there is no mutual exclusion: a first
// member that starts again has the token, or an empty queue, while another member may hold
// the lock. So end all members before any of them is started again.
//
// Messages that the network loses are repeated. Any is not supported, and TryLock only by
// algorithms that can tell whether a resource is free.
//
// All members publish events, and the first one the states, as package qosmutex describes
// them; it makes the states from the events, so without it nobody is told who holds.
package papers
