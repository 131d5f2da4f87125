package broker_test

import (
	"context"
	"fmt"
	"os"

	"padme/broker"
)

// runVictim is the whole of a process that waits to be killed: a broker on a
// data directory, whose address is its only output.
func runVictim(dir string) {
	b, err := broker.Start(context.Background(), broker.Config{TCP: "127.0.0.1:0", DataDir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(b.URL())
	select {}
}
