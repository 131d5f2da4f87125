// Package faults holds the tests of locks between real processes: participants
// and brokers that are killed, stopped, cut off, delayed and started again. The
// participants write down what they saw; their histories are checked with
// porcupine against a lock with fences, and what they did to files against a
// guard of package fence.
//
//	go test ./tests/faults -v                                       # a few of each
//	go test ./tests/faults -v -run Injections -injections 200 -parallel 8 -timeout 3h
//	go test ./tests/faults -v -run Failover -failovers 100 -timeout 1h
//
// They need Linux; those of partitions and packet loss also root.
package faults
