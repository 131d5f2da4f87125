// Command pubsub-node is the command line of padme: an embedded MQTT broker that
// also roots locks, publish and subscribe, distributed locks around commands, and
// a simulator of lock algorithms.
//
//	pubsub-node broker
//	pubsub-node lock crane -- sh -c 'echo in; sleep 2; echo out'
//	pubsub-node lock ls
//	pubsub-node sub weather
//	pubsub-node pub weather '{"celsius": 21}'
//	pubsub-node sim --compare padme,raymond,central
//
// Every verb explains itself with --help. The exit codes are listed in
// `pubsub-node lock --help`.
package main

import "os"

func main() {
	outliveReaders()
	os.Exit(execute(os.Args[1:]))
}
