// Package web is what the pages of the commands share: their look and small
// JavaScript modules (folder base, embedded), a server for a page that goes to
// nobody but this machine unless told otherwise, and a bridge that carries a page's
// MQTT over WebSocket to a broker that has no WebSocket listener.
//
// A page is an MQTT client of its own. The server knows nothing of locks. A page is
// a folder with index.html, its scripts and its styles, and finds at /base/
//
//	base.css       the design: colors, type, bars, cards, tags, light and dark
//	connection.js  loadConfig and connect: MQTT with a status, again and again
//	status.js      the connection's badge, and the question for a password
//	levels.js      topic levels, encoded and decoded
//	locks.js       class Locks: what retained messages say about locks
//	decisions.js   class Decisions: those of roots, as states had them
//	explain.js     why somebody has a lock or waits for it, in words and in a dialog
//	epoch.js       epochs and fences, which exceed what a number can hold
//	dom.js         elements, cheap updates once a frame, durations
//	mqtt.esm.js    the MQTT client, as published (mqtt.README.md)
//
// The JavaScript that needs no browser is tested by node's own test runner:
// padme/tests/modules runs the tests from a Go test.
package web
