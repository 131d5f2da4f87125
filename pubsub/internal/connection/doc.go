// Package connection brings bytes to an MQTT broker and back. It is the lowest layer of
// pub/sub, and the only one that knows the MQTT client library.
//
//	Lane     one connection that is opened again whenever it is lost
//	 ├ Outbox    what waits for it: a Queue, or the Latest of each topic
//	 ├ flight    what the broker has not acknowledged
//	 ├ routes    who hears what arrives
//	 └ Link      one MQTT session over one network connection, never used again
//	    └ stream    its bytes: publishes and acknowledgements pass the client by
//
// It knows topics and payloads, and nothing of participants, samples or policies.
package connection
