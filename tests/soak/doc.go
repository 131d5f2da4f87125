// Package soak holds a test that runs pubsub-node processes under random faults
// for as long as asked, and watches what they keep: memory, goroutines and file
// descriptors. See docs/soak.md.
package soak
