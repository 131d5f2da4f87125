// Package clients holds tests that run the example clients of docs/clients.md as they
// stand there, with a gateway, a Go program and real brokers, each a process of its
// own.
package clients
