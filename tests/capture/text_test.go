package capture

import (
	"fmt"
	"sync"
	"testing"
)

func TestText(t *testing.T) {
	var text Text
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() { fmt.Fprintf(&text, "level=WARN from=%d\n", i) })
	}
	writers.Wait()
	fmt.Fprint(&text, "level=INFO from=3")
	if n := text.Lines("WARN"); n != 4 {
		t.Errorf("%d warnings", n)
	}
	if n := text.Lines("WARN", "from=3"); n != 1 || !text.Has("INFO from=3") || text.Has("from=4") {
		t.Errorf("%d warnings of 3 in %s", n, &text)
	}
	if got := text.Take(); len(got) != 4*len("level=WARN from=0\n")+len("level=INFO from=3") || text.String() != "" {
		t.Errorf("took %q, %q is left", got, &text)
	}
}

func TestTheLastIsKept(t *testing.T) {
	text := Text{Last: 5}
	for _, s := range []string{"abc", "defg", "h"} {
		fmt.Fprint(&text, s)
	}
	if got := text.String(); got != "defgh" {
		t.Errorf("kept %q", got)
	}
}
