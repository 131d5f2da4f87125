package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"padme/qosmutex"
)

// What is granted in a moment is not said to be granted in 0s.
func TestTimeToAGrantIsNeverZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]string{time.Millisecond: "in 100ms at most", 100 * time.Millisecond: "in 100ms at most", 2901 * time.Millisecond: "in 3s at most"} {
			var b strings.Builder
			if err := writeView(&b, &qosmutex.View{GrantsFrom: time.Now().Add(left)}, false); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), want) {
				t.Errorf("with %v left: %s", left, b.String())
			}
		}
	})
}
