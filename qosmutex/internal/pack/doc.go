// Package pack writes and reads the msgpack types of which lock messages, and the messages
// and files of registers, consist. Reading trusts no length: it allocates only for bytes that
// are there.
package pack
