//go:build linux

package clients

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// visit is one stay inside, in milliseconds of this machine's clock.
type visit struct {
	who     string
	fence   uint64
	in, out int64
	lost    bool // it had to stop
}

// visits reads what an example printed.
func visits(who, printed string) ([]visit, error) {
	var all []visit
	lines := bufio.NewScanner(strings.NewReader(printed))
	for lines.Scan() {
		var what string
		var fence uint64
		var at int64
		if n, _ := fmt.Sscanf(lines.Text(), "%s %d %d", &what, &fence, &at); n != 3 {
			return nil, fmt.Errorf("%s: line %q", who, lines.Text())
		}
		switch last := len(all) - 1; {
		case what == "in" && (last < 0 || all[last].out != 0):
			all = append(all, visit{who: who, fence: fence, in: at})
		case (what == "out" || what == "lost") && last >= 0 && all[last].out == 0 && all[last].fence == fence:
			all[last].out, all[last].lost = at, what == "lost"
		default:
			return nil, fmt.Errorf("%s: line %q does not follow:\n%s", who, lines.Text(), printed)
		}
	}
	return all, nil
}

// judge reports visits that overlap, and fences that do not rise with time. When a
// visit that was lost was noticed to be is not judged: a process may be paused between
// its last look and the next one, and only a fence helps against that. That nobody is
// let in before is judged in virtual time, in qosmutex/gateway.
func judge(all []visit) error {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b visit) int { return cmp.Compare(a.fence, b.fence) })
	for i, v := range all {
		if v.fence == 0 || v.in == 0 || v.out < v.in {
			return fmt.Errorf("not a visit: %+v", v)
		}
		if i == 0 {
			continue
		}
		if last := all[i-1]; last.fence == v.fence || !last.lost && last.out > v.in || last.in > v.in {
			return fmt.Errorf("overlap: %+v and %+v", last, v)
		}
	}
	return nil
}

// The judge can say no.
func TestJudge(t *testing.T) {
	good := []visit{{"a", 1, 10, 20, false}, {"b", 2, 20, 30, false}, {"a", 5, 31, 45, true}, {"b", 6, 40, 50, false}}
	if err := judge(good); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string][]visit{
		"lost, but too early":  {{"a", 1, 20, 25, true}, {"b", 2, 19, 30, false}},
		"overlap":              {{"a", 1, 10, 20, false}, {"b", 2, 19, 30, false}},
		"inside each other":    {{"a", 1, 10, 40, false}, {"b", 2, 20, 30, false}},
		"a fence twice":        {{"a", 1, 10, 20, false}, {"b", 1, 30, 40, false}},
		"a fence that falls":   {{"a", 2, 10, 20, false}, {"b", 1, 30, 40, false}},
		"no fence":             {{"a", 0, 10, 20, false}},
		"one that never ended": {{"a", 1, 10, 0, false}},
	} {
		if judge(bad) == nil {
			t.Errorf("%s: not seen", name)
		}
	}
	if v, err := visits("a", "in 1 10\nout 1 20\nin 2 30\nlost 2 40\n"); err != nil || len(v) != 2 || !v[1].lost {
		t.Errorf("%v %v", v, err)
	}
	for _, bad := range []string{"in 1 10\nin 2 20\n", "out 1 10\n", "in 1 10\nout 2 20\n", "hello\n"} {
		if _, err := visits("a", bad); err == nil {
			t.Errorf("%q: not seen", bad)
		}
	}
}
