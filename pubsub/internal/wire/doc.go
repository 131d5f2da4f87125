// Package wire is what participants send each other, as bytes: envelopes in msgpack or
// JSON, and within them the messages of discovery and repair. docs/topics.md describes it
// for others. What comes from a stranger is read without a panic, without allocating by
// any number that it names, and no deeper than its own length.
package wire
