package fence_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"padme/qosmutex/fence"
)

// A gateway writes to a PLC what holders of a lock send it, and refuses those
// whose lock has gone to somebody else meanwhile.
func ExampleGuard_Do() {
	var guard fence.Guard
	setpoint := 0 // in the PLC
	set := func(fence uint64, to int) error {
		return guard.Do("press", fence, func() error {
			setpoint = to
			return nil
		})
	}
	fmt.Println(set(41, 100))
	fmt.Println(set(42, 200)) // the next holder
	err := set(41, 300)       // the one before wakes up
	fmt.Println(err)
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		fmt.Println(stale.Fence, "is below", stale.Highest)
	}
	fmt.Println(setpoint)
	// Output:
	// <nil>
	// <nil>
	// fence: stale: "press" has seen fence 42, this is 41: the lock was lost, take it again
	// 41 is below 42
	// 200
}

// Processes count in a file. Each presents its fence when it reads, not only when
// it writes: from then on nobody before it can change what it has read.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "fence")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	counter := filepath.Join(dir, "counter")
	guard, err := fence.Open(counter + ".fence")
	if err != nil {
		log.Fatal(err)
	}
	read := func(f uint64) (n int, err error) {
		err = guard.Do("counter", f, func() error {
			text, err := os.ReadFile(counter)
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err == nil {
				n, err = strconv.Atoi(strings.TrimSpace(string(text)))
			}
			return err
		})
		return n, err
	}
	write := func(f uint64, n int) error {
		return guard.Do("counter", f, func() error { return os.WriteFile(counter, []byte(strconv.Itoa(n)), 0o600) })
	}

	late, err := read(7) // and is paused until its lock is lost
	fmt.Println(late, err)
	n, err := read(8)
	fmt.Println(n, err, write(8, n+1))
	fmt.Println(errors.Is(write(7, late+1), fence.ErrStale))
	n, err = read(9)
	fmt.Println(n, err)
	// Output:
	// 0 <nil>
	// 0 <nil> <nil>
	// true
	// 1 <nil>
}

// A loop that handles one message after the other only compares.
func ExampleGuard_Admit() {
	var guard fence.Guard
	for _, fence := range []uint64{5, 5, 9, 5} {
		if err := guard.Admit("valve", fence); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println("moved by", fence)
	}
	// Output:
	// moved by 5
	// moved by 5
	// moved by 9
	// fence: stale: "valve" has seen fence 9, this is 5: the lock was lost, take it again
}
