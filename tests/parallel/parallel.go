// Package parallel lets more tests run at a time than there are processors, where most
// of what they do is wait: for a time to live to end, or for other processes.
package parallel

import (
	"flag"
	"runtime"
	"strconv"
)

// Tests has this package's parallel tests run n at a time for each processor, unless
// -parallel says how many. TestMain calls it.
func Tests(n int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
