package sim

import (
	"bytes"
	"encoding/csv"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
)

func TestReadTrace(t *testing.T) {
	got, err := ReadTrace(strings.NewReader(`at,node,resource,hold,priority,within
# a quiet morning
1.5, A, crane, 20ms

2s,"B","lift, east",0.25,-3
500ms,C,crane,1m,,1h30m
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Arrival{
		{1500 * protocol.Millisecond, "A", Request{Resource: "crane", Hold: 20 * protocol.Millisecond}},
		{2 * second, "B", Request{Resource: "lift, east", Hold: 250 * protocol.Millisecond, Priority: -3, Fixed: true}},
		{500 * protocol.Millisecond, "C", Request{Resource: "crane", Hold: 60 * second, Within: 5400 * second}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestATraceSaysWhatIsWrongAndWhere(t *testing.T) {
	for text, want := range map[string]string{
		"0,A,crane,1s\n\n# x\n0,A,crane":  "line 4: has 3 fields, want at,node,resource,hold[,priority[,within]]",
		"0,A,crane,1s,2,3,4":              "line 1: has 7 fields",
		"0,,crane,1s":                     "line 1: node is empty",
		"0,A,\"two\nlines\",1s":           `line 1: resource: "two\nlines" has a control character`,
		"soon,A,crane,1s":                 `line 1: at: "soon" is neither a duration, such as 1.5s, nor a number of seconds`,
		"0,A,crane,-1s":                   `line 1: hold: "-1s" is not between 0 and`,
		"-2,A,crane,1s":                   `line 1: at: "-2" is not between 0 and`,
		"NaN,A,crane,1s":                  `line 1: at: "NaN" is not between 0 and`,
		"1e300,A,crane,1s":                `line 1: at: "1e300" is not between 0 and`,
		"0,A,crane,1s,high":               `line 1: priority: "high" is not a whole number`,
		"0,A,crane,1s,1,never":            `line 1: within: "never" is neither`,
		"0,A,crane,1s,1,0s":               "line 1: within: must be positive",
		"0,A,crane,1s\n0,\"A,crane,1s\n":  "line 2: extraneous or missing \" in quoted-field",
		"at,node,resource,hold\nat,1,2,3": `line 2: at: "at" is neither`,
	} {
		if _, err := ReadTrace(strings.NewReader(text)); !errors.Is(err, ErrTrace) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q\ngot  %v\nwant %s", text, err, want)
		}
	}
	broken := errors.New("the disk is gone")
	if _, err := ReadTrace(failing{broken}); !errors.Is(err, broken) || errors.Is(err, ErrTrace) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzReadTrace: whatever is read can be run, and survives being written down.
func FuzzReadTrace(f *testing.F) {
	f.Add("at,node,resource,hold\n0,A,crane,1s,2,3s\n")
	f.Add("1e9,A,\"b\nc\",.5,,\n#\n")
	f.Add("0,0,\"0\r\r\n0\",0")
	f.Add("0x1p-2,A,*,1h\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrTrace) || !strings.Contains(err.Error(), "line ") {
				t.Fatalf("%v names no line", err)
			}
			return
		}
		known := map[string]bool{}
		for _, a := range got {
			known[a.Node] = true
		}
		if err := (&Scenario{Arrivals: got}).validateArrivals(known); err != nil {
			t.Fatal(err)
		}
		again, err := ReadTrace(writeTrace(t, got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%v: %+v became %+v", err, got, again)
		}
	})
}

func writeTrace(t *testing.T, arrivals []Arrival) *bytes.Buffer {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	ns := func(d protocol.Duration) string { return strconv.FormatInt(int64(d), 10) + "ns" }
	for _, a := range arrivals {
		line := []string{ns(a.At), a.Node, a.Resource, ns(a.Hold), "", ""}
		if a.Fixed {
			line[4] = strconv.FormatInt(a.Priority, 10)
		}
		if a.Within > 0 {
			line[5] = ns(a.Within)
		}
		if err := w.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	return &b
}

// Arrivals come in order of time, and those of one instant in that of the list; one
// at a paused participant waits, one at a crashed one is not made.
func TestArrivals(t *testing.T) {
	got, _, err := manual(t, func(sc *Scenario) {
		sc.Network = Network{}
		sc.Arrivals = []Arrival{
			{5 * second, "B", Request{Resource: "lift"}},
			{2 * second, "A", Request{Resource: "crane"}},
			{2 * second, "B", Request{Resource: "crane", Priority: -1, Fixed: true}},
			{4 * second, "A", Request{Resource: "tug"}},
			{6 * second, "A", Request{Resource: "lift"}},
		}
	}, func(s *Sim) {
		s.At(8*second, func() { s.Pause("A") })
		s.At(10500*protocol.Millisecond, func() { s.Resume("A"); s.Crash("A") })
	})
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, line := range got {
		if strings.Contains(line, "requests") {
			asked = append(asked, line)
		}
	}
	wantLines(t, asked,
		"7.000s A requests crane p0", "7.000s B requests crane p-1",
		"10.000s B requests lift p1", "10.500s A requests tug p0",
	)
}

func TestArrivalsAreChecked(t *testing.T) {
	for want, a := range map[string]Arrival{
		`arrival 1 is at "Z"`: {0, "Z", Request{Resource: "crane"}},
		"names no resource":   {0, "A", Request{}},
		"endless time":        {-1, "A", Request{Resource: "crane"}},
	} {
		sc := star(1)
		sc.Arrivals = []Arrival{a}
		if _, err := New(centralServer(""), sc); !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
