// Command pubsub-node is the command line of padme: an embedded MQTT broker that
// also roots locks, publish and subscribe, and distributed locks around
// commands.
//
//	pubsub-node broker
//	pubsub-node lock crane -- sh -c 'echo in; sleep 2; echo out'
//	pubsub-node lock ls
//	pubsub-node sub weather
//	pubsub-node pub weather '{"celsius": 21}'
//
// Every verb explains itself with --help. The exit codes are listed in
// `pubsub-node lock --help`.
package main

import "os"

func main() {
	os.Exit(execute(os.Args[1:]))
}
