package screen_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"padme/cmd/rescue-demo/internal/area"
	"padme/cmd/rescue-demo/internal/screen"

	"pgregory.net/rapid"
)

var ansi = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)

func scene(robots, frequencies int) screen.Scene {
	a := area.New(area.Config{Width: 480, Height: 320, Survivors: 30, Seed: 1})
	s := screen.Scene{
		Area: a, Elapsed: 12 * time.Second, Duration: time.Minute, SwitchAt: 30 * time.Second,
		Models: "level-replace-use-use", Entries: 34, Frames: 310, FrameBytes: 420_000,
	}
	for i := range frequencies {
		s.Frequencies = append(s.Frequencies, screen.Frequency{Name: fmt.Sprintf("146.%03d", 520+15*i), Holder: "robot-3", Since: 600 * time.Millisecond, Waiting: 5})
	}
	for i := range robots {
		s.Robots = append(s.Robots, screen.Robot{At: a.Walk(i).At(5), Survivors: i, Shadow: i%3 == 0, Waits: time.Duration(i%2) * time.Second})
	}
	return s
}

func TestDrawingFitsTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := scene(rapid.IntRange(1, 50).Draw(t, "robots"), rapid.IntRange(1, 20).Draw(t, "frequencies"))
		columns, rows := rapid.IntRange(1, 200).Draw(t, "columns"), rapid.IntRange(1, 60).Draw(t, "rows")
		color := rapid.Bool().Draw(t, "color")
		lines := screen.Draw(s, columns, rows, color)
		if len(lines) > max(1, rows-1) {
			t.Fatalf("%d lines in %d rows", len(lines), rows)
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(ansi.ReplaceAllString(line, "")); n > columns {
				t.Fatalf("%d of %d columns: %q", n, columns, line)
			}
			if !color && strings.Contains(line, "\x1b") {
				t.Fatalf("color in %q", line)
			}
			if strings.Contains(line, "\x1b") && !strings.HasSuffix(line[:strings.LastIndex(line, "m")+1], "\x1b[0m") {
				t.Fatalf("color runs on after %q", line)
			}
		}
	})
}

func TestDrawingShowsWhatMatters(t *testing.T) {
	s := scene(8, 2)
	s.Robots[1].On = "146.520"
	s.Robots[4].Paused, s.Robots[5].Dead = true, true
	text := strings.Join(screen.Draw(s, 80, 24, false), "\n")
	for _, want := range []string{
		"00:12 of 01:00", "level-replace-use-use, fair at 00:30", "146.520 MHz  robot-3", "5 waiting",
		"1 sees 0  cut off", "2 sees 1  on 146.520", "4 sees 3  cut off, waits 1.0 s", "5 sees 4  paused", "6 sees 5  dead", "entries 34", "overlaps 0", "#", "*", "C",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for i := range s.Robots {
		if sign := string(rune('1' + i)); !regexp.MustCompile(`(?m)^\|.*` + sign + `.*\|`).MatchString(text) {
			t.Errorf("robot %s is not on the map:\n%s", sign, text)
		}
	}
}

func TestLineSaysTheSame(t *testing.T) {
	line := screen.Line(scene(8, 2))
	for _, want := range []string{"00:12", "146.520: robot-3", "waiting 4", "cut off 3", "entries 34", "overlaps 0"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %q", want, line)
		}
	}
}

// vt is as much of a terminal as is needed to see what stands on it.
type vt struct {
	rows [][]rune
	y, x int
}

func (v *vt) Write(p []byte) (int, error) {
	text := string(p)
	for len(text) > 0 {
		if loc := ansi.FindStringIndex(text); loc != nil && loc[0] == 0 {
			v.control(text[:loc[1]])
			text = text[loc[1]:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		v.put(r)
	}
	return len(p), nil
}

func (v *vt) control(sequence string) {
	switch sequence[len(sequence)-1] {
	case 'A':
		n := 0
		fmt.Sscanf(sequence, "\x1b[%dA", &n)
		v.y -= n
	case 'K':
		v.row()
		v.rows[v.y] = v.rows[v.y][:min(v.x, len(v.rows[v.y]))]
	case 'J':
		v.rows = v.rows[:min(v.y, len(v.rows))]
	}
}

// row makes the row of the cursor.
func (v *vt) row() {
	for len(v.rows) <= v.y {
		v.rows = append(v.rows, nil)
	}
}

func (v *vt) put(r rune) {
	switch r {
	case '\r':
		v.x = 0
	case '\n':
		v.y, v.x = v.y+1, 0
	default:
		v.row()
		row := v.rows[v.y]
		for len(row) <= v.x {
			row = append(row, ' ')
		}
		row[v.x] = r
		v.rows[v.y] = row
		v.x++
	}
}

func TestTerminalShowsOnlyTheLastPicture(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v vt
		fmt.Fprint(&v, "what was before\r\n")
		terminal := screen.NewTerminal(&v)
		line := rapid.StringMatching(`[a-z ]{0,20}x`)
		var last []string
		for range rapid.IntRange(1, 6).Draw(t, "pictures") {
			last = rapid.SliceOfN(line, 0, 8).Draw(t, "picture")
			terminal.Show(last)
		}
		terminal.Close()
		got := make([]string, 0, len(v.rows))
		for _, row := range v.rows {
			got = append(got, string(row))
		}
		want := append([]string{"what was before"}, last...)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("the terminal shows %q, want %q", got, want)
		}
	})
}

func TestTerminalGivesTheCursorBack(t *testing.T) {
	var b bytes.Buffer
	screen.NewTerminal(&b).Close()
	if hide, show := strings.Index(b.String(), "\x1b[?25l"), strings.Index(b.String(), "\x1b[?25h"); hide < 0 || show < hide {
		t.Fatalf("%q", b.String())
	}
}

func TestChaosIsShown(t *testing.T) {
	s := scene(3, 2)
	s.Faults, s.LastAct = 4, "robot-3 killed"
	const want = "faults 4: robot-3 killed"
	if line := screen.Line(s); !strings.Contains(line, want) {
		t.Errorf("no %q in %q", want, line)
	}
	if all := strings.Join(screen.Draw(s, 120, 30, false), "\n"); !strings.Contains(all, want) {
		t.Errorf("no %q in\n%s", want, all)
	}
}

func TestForgedNamesAreHarmless(t *testing.T) {
	const evil = "\x1b]0;x\a\u202e\u009b2J\n"
	s := scene(3, 1)
	s.Frequencies = append(s.Frequencies, screen.Frequency{Name: evil, Holder: evil}, screen.Frequency{Name: "1", Status: evil})
	s.Robots[0].On = evil
	for _, line := range append(screen.Draw(s, 200, 40, false), screen.Line(s)) {
		if strings.ContainsAny(line, "\x1b\a\n\u202e\u009b") {
			t.Errorf("%q", line)
		}
	}
}
