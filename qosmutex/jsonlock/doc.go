// Package jsonlock is the JSON protocol between the clients of a lock and the gateway
// that serves them, as docs/clients.md describes it: requests on
// R/lock/{topic}/client/{P}/request, answers on R/lock/{topic}/client/{P}/answer. It
// encodes and decodes, and knows neither clocks nor connections: package
// padme/qosmutex has the client (Dial), package padme/qosmutex/gateway the server.
//
// Both decoders take what strangers send: what they return is within the bounds of
// this package, and anything else is an error.
package jsonlock

// A participant that serves clients says so in the user data of its presence, so that a
// client which is not answered can tell whether anybody serves.
const (
	ServesKey   = "serves"
	ServesLocks = "locks"
	// CreatesKey has the same value where the participant has a register, in which it creates
	// locks, so that others need not create them in their memory.
	CreatesKey = "creates"
)
