// Package pack writes and reads the few msgpack types of which the register's files
// and messages consist. Reading trusts no length: it allocates only for bytes that
// are there.
package pack
