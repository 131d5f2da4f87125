// Package explore is a bounded exhaustive model checker over the real PADME machine,
// [padme.Machine], alone or with its record and lease: it takes a small world through
// every order in which messages arrive, applications ask and leave, time passes and
// things break, and checks the protocol's invariants in each state. It searches breadth
// first, so that a counterexample is as short as can be, and goes on in depth where a
// level of states no longer fits in memory.
//
// A world is a few participants that are members of one topic with one resource,
// their applications, and the messages in flight, in order for each pair of sender
// and receiver. What happens in a run is bounded by a [Budget]; time passes in
// ticks of one heartbeat. A search ends when nothing new can happen: it has reached
// its fixpoint. One that meets its bound on states first says so.
//
// # How large it is, and why nothing is missed
//
// Three participants in a chain, with two requests each, one crash, one loss and one
// duplicate in one run, reach their fixpoint of some twelve million states, with
// Fair-Replace-Use-Use. It is the first search of
//
//	make explore
//
// docs/robustness.md has its figures, which differ a little from run to run, because
// the search in depth is shared by as many as there are processors. What makes the
// space that small:
//
//   - Instants are relative to now, and as far away as matters; numbers that count up
//     (clocks, fences, grants, beacons, message numbers) are ranks, with distances up to
//     what can still be counted; see [canonical.Names]. A machine only compares the former
//     with now and the latter with each other, so what has the same form does the same.
//     TestSameNameSameFuture tries that on thousands of states, and padme's
//     TestStateNamesEveryField that no field is missing from the form.
//   - Of a state 64 bits are kept, by a hash that differs in each run of the program.
//     That two of n states share them, so that one is not visited, has a chance below
//     n²/2⁶⁵: one in 250,000 for twelve million; another run would visit it.
//   - A state in which less may still go wrong than in one that is known, and all else
//     is the same, is known: whatever can happen in it can happen there, and is checked
//     there as strictly. So a duplicate that was dropped, or a loss that was repaired, is
//     the end of that run. TestSameNameSameFuture tries this, too.
//   - Messages between two participants are in order, as they are on one MQTT
//     connection, and without [Config.Upkeep] the upkeep of the tree arrives at once.
//   - Time passes only when all messages have arrived, unless [Config.Delay] is set. A
//     session that expires while messages are in flight is explored in the rows that set it.
//   - No world is kept once what follows from it is known: the way to a state is kept
//     as a chain of actions, or is the stack of the search in depth.
//
// Two reductions are not made. Symmetry: participants differ in rank, which decides
// whom the algorithm prefers. Partial orders: a fault may come between any two
// messages, so that hardly two actions are independent while one is left.
//
// # What is checked
//
// The numbers are those of docs/lock-protocol.md. After every step of a machine:
//
//	I1  at most one hold passes Check
//	I2  fences rise in the order of entries
//	I3  at most one participant whose session is valid has the token, and so at most
//	    one grant is live
//	I6  no two roots act in one epoch
//	    each machine's CheckInvariants (that part of I4 which can be seen at one
//	    participant: what waits at the head is known to the parent); no message is
//	    dropped as one that no correct participant sends; nobody enters without a
//	    valid session or for a request that does not wait
//
// In every state in which no message is in flight, as long as nothing has gone wrong:
//
//	I7  nobody knows a request that was withdrawn
//
// In every state in which, besides, nobody is inside, whatever has gone wrong:
//
//	I8  as long as nothing has gone wrong, nobody waits, without any time passing;
//	    else the world is healed, and then everybody who lives and waits is served
//	    within [Patience] ticks
//	I7  afterwards nothing is left of any request anywhere, and the token is at home
//	I4  follows: a request that some hop does not know would not be served
//	I5  afterwards everybody has a place in the tree
//
//	I6  at most one participant acts as the root under a lease that is valid
//
// # Who is the root
//
// Without [Config.Register] an oracle stands for the record of the topic: the root
// renews its lease with each of its heartbeats, and the most important of the others
// that can takes over a heartbeat after its end. Whom a root names its successor hears
// so from the oracle at any time, or from the root. With [Config.Register] those who
// can be the root run a [candidate.Machine] and ask a register, which does what it is
// asked at once; what may go wrong there is that an answer is lost, that a write is
// made long after it was given up, and that the register forgets renewals. Package
// lease has a model checker of its own, in which requests take time.
//
// In an adaptive tree nobody who has crashed is started again for the check of
// liveness, unless nobody is left who can be the root. Result.Terms counts the
// transitions in which somebody becomes the root.
//
// # What is not explored
//
// An application asks again only after its last request is over. All clocks show the
// same time. Messages between two participants keep their order, but for duplicates,
// and arrive within [Config.Delay] ticks unless they are lost or the receiver is
// paused, which it is for at most 7 ticks after a message was sent to it. The root's
// own heartbeats come back at once while it is connected. That somebody is suspected
// is told to one participant at a time.
//
// # When it finds something
//
// The error is a [*Violation]; its [Trace] prints as one action to a line. Put it into
// testdata, below a line that says what was wrong: TestTraces replays it with every
// message, and holds the fix. To explore one world,
//
//	go test ./qosmutex/explore -run TestExplore -v -row 'parents=-,A,B models=fair-replace-use-use requests=1 tick=-1 crash=1'
package explore
