package pubsub

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/pubsub/filter"
	"padme/pubsub/internal/reliable"
)

type shape struct {
	Color string `pubsub:"key" msgpack:"color" json:"color"`
	X     int    `msgpack:"x" json:"x"`
	Name  string `msgpack:"name" json:"name"`
	Ok    bool   `msgpack:"ok" json:"ok"`
}

func TestExpressionsSelectSamples(t *testing.T) {
	v := shape{Color: "RED", X: 7, Name: "a = b AND c", Ok: true}
	for _, codec := range []Codec{Msgpack, JSON} {
		body, _, err := codec.encode(v)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{
			"x > 5 AND color = 'RED'":          true,
			"x > 5 AND color = 'BLUE'":         false,
			"x <> 7":                           false,
			"x >= 7 and x <= 7":                true,
			"NOT (x = 7) OR ok":                true,
			`name = "a = b AND c"`:             true,
			`name = 'a = b AND c'`:             true,
			"name startsWith 'a' && x in 1..8": true,
			"x = 7.0":                          true,
			"ok = false":                       false,
			"color in ['BLUE', 'RED']":         true,
		} {
			x, err := filter.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := keeperOf(x, codec)(body); err != nil || got != want {
				t.Errorf("%s as %s: %v, %v", text, codec, got, err)
			}
		}
	}
}

func TestBrokenExpressionsAreRefused(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		topic := topicOf[shape](t, a, "p")
		for _, text := range []string{"", "x >", "len(name) > 1", "color = 'RED", strings.Repeat(" ", 4<<10+1)} {
			x, err := filter.Parse(text)
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%.20q: %v", text, err)
			}
			if _, err := NewReader(testContext(t), topic, WithExpression(x)); !errors.Is(err, ErrInvalid) {
				t.Errorf("a reader with %.20q: %v", text, err)
			}
		}
		for text, names := range map[string]string{
			"x > 5; x < 3":                        "AND",
			"ok and (x > 5; x < 3)":               "AND",
			"let y = 5; x > y":                    "let",
			"if x > 5 { ok } else { name = 'a' }": "if",
			"name | len() > 1":                    "function",
			"any([1], # = 1)":                     "function",
			"$env.x > 5":                          "$env",
		} {
			if _, err := filter.Parse(text); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), names) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if _, err := NewReader(testContext(t), topic, selected(t, "x > 5 AND nome = 'a'")); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "nome") {
			t.Errorf("a field that is not there: %v", err)
		}
		if _, err := NewReader(testContext(t), topic, WithFilter(func(int) bool { return true })); !errors.Is(err, ErrInvalid) {
			t.Errorf("a filter of another type: %v", err)
		}
		if _, err := NewWriter(testContext(t), topic, selected(t, "x > 1")); !errors.Is(err, ErrInvalid) {
			t.Errorf("a writer with a filter: %v", err)
		}
	})
}

type typed struct {
	Key    string          `pubsub:"key" json:"key"`
	F      float64         `json:"f"`
	N      int             `json:"n"`
	Ok     bool            `json:"ok,omitempty"`
	Quoted int             `json:"quoted,string"`
	When   time.Time       `json:"when"`
	Raw    json.RawMessage `json:"raw"`
	Size   size            `json:"size"`
}

// size is written as a number.
type size string

func (s size) MarshalJSON() ([]byte, error) { return json.Marshal(len(s)) }

// What can have no answer, or never holds, as a field has another type.
func TestExpressionsFitTheTypesOfFields(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		topic, err := NewTopic[typed](d.join("a"), "p", WithCodec(JSON))
		if err != nil {
			t.Fatal(err)
		}
		for text, fits := range map[string]bool{
			"f > 'a'":                        false,
			"f":                              false,
			"key = 5":                        false,
			"n > 1 AND key":                  false,
			"NOT n":                          false,
			"ok = 1":                         false,
			"n contains 'a'":                 false,
			"f > 5 AND n <= 2.5":             true,
			"ok OR key startsWith 'a'":       true,
			"f in [1, 2] AND n in [1.5, 2]":  true,
			"f in [1, 2] AND n in [1.5]":     true,
			"size > 5":                       true,
			"f in 1..8 AND NOT ok":           true,
			"quoted = '5' AND when > '2026'": true,
			"raw > 5 OR raw = 'a'":           true,
			"raw.x > 5 AND n % 2 = 1":        true,
			"(f + n) / 2 > 5":                true,
		} {
			r, err := NewReader(testContext(t), topic, selected(t, text))
			if fits != (err == nil) || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", text, err)
			}
			if err == nil {
				r.Close()
			}
		}
	})
}

// A whole number is one in JSON, too, which has no types of numbers.
func TestExpressionsHoldAlikeOfBothCodecs(t *testing.T) {
	type sample struct {
		N int
		X float64
		L []int
		M map[string]int64
	}
	answers := func(codec Codec, text string) (all []string) {
		x, err := filter.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		keep := keeperOf(x, codec)
		for n := range 6 {
			body, _, err := codec.encode(sample{n, float64(n) + 0.5, []int{n}, map[string]int64{"big": 1<<53 + int64(n)}})
			if err != nil {
				t.Fatal(err)
			}
			body = bytes.Clone(body)
			holds, err := keep(body)
			all = append(all, fmt.Sprint(holds, err != nil))
		}
		return all
	}
	for text, want := range map[string]int{
		"N % 2 = 0": 3, "N in [1, 2]": 2, "N in [1.5, 2]": 1, "N in 1..3": 3, "N / 2 > 1.2": 3, "N ** 2 > 8": 3, "N = 3": 1, "N > 2.5": 3,
		"X % 2 = 0": 0, "X = 2.5": 1, "N + X > 4": 4, "L[0] % 3 = 0": 2, "M.big = 9007199254740993": 1, "M.big % 2 = 1": 3,
	} {
		plain, packed := answers(JSON, text), answers(Msgpack, text)
		holds := len(slices.DeleteFunc(slices.Clone(plain), func(s string) bool { return s != "true false" }))
		if !slices.Equal(plain, packed) || holds != want {
			t.Errorf("%s: JSON %v, Msgpack %v, want %d", text, plain, packed, want)
		}
	}
}

func TestAFilteredReaderHasOnlyWhatPasses(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a, b := d.join("a"), d.join("b")
		w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
		last := newReader(t, topicOf[pose](t, b, "p"), WithQoS(QoS{Reliability: Reliable}), WithFilter(func(p pose) bool { return p.X < 5 }))
		text := newReader(t, topicOf[pose](t, b, "p"), WithQoS(keepAll), selected(t, "X = 3 OR X = 8"))
		both := newReader(t, topicOf[pose](t, b, "p"), WithQoS(keepAll), selected(t, "X > 3"), WithFilter(func(p pose) bool { return p.X < 6 }))
		awaitReaders(t, w, 3)
		for i := range 10 {
			write(t, w, poseOf("r", float64(i)))
		}
		ctx := testContext(t)
		for _, err := range []error{w.Write(ctx, poseOf("never", 9)), w.Dispose(ctx, poseOf("never", 0)), w.Dispose(ctx, poseOf("r", 0)), w.WaitAcked(ctx)} {
			if err != nil {
				t.Fatal(err) // what a filter drops is acknowledged as well
			}
		}
		states := func(r *Reader[pose]) map[string]InstanceState {
			m := map[string]InstanceState{}
			for _, s := range r.Read(100) {
				m[s.Info.Key] = s.Info.State
			}
			return m
		}
		if got := states(text); len(got) != 1 || got["r"] != Disposed {
			t.Errorf("states: %v", got)
		}
		expectXs(t, "text", text, 3, 8)
		expectXs(t, "both", both, 4, 5)
		if got := last.Take(9); len(got) != 2 || got[0].Data.X != 4 || got[1].Info.State != Disposed {
			t.Errorf("keep last: %+v", got)
		}
		silent(t, "a reader", text.ep.events)
	})
}

// A newer sample that does not pass takes no room from one that does.
func TestAFilterComesBeforeHistory(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		w := writerOf(t, topicOf[pose](t, a, "p"), keepAll)
		r := newReader(t, topicOf[pose](t, a, "p"), WithQoS(QoS{Reliability: Reliable}), WithFilter(func(p pose) bool { return p.X < 5 }))
		awaitReaders(t, w, 1)
		for i := range 10 {
			write(t, w, poseOf("r", float64(i)))
		}
		settle(time.Second)
		expectXs(t, "depth 1", r, 4)
	})
}

func TestASampleWithoutAnswerIsRejected(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, d *domain) {
		a := d.join("a")
		topic := topicOf[any](t, a, "p")
		w := writerOf(t, topic, keepAll)
		r := newReader(t, topic, WithQoS(keepAll), selected(t, "x > 5"))
		awaitReaders(t, w, 1)
		for _, v := range []any{map[string]any{"x": 6}, map[string]any{"y": 6}, map[string]any{"x": "text"}, map[string]any{"x": 4}} {
			write(t, w, v)
		}
		settle(time.Second)
		if got := r.Take(9); len(got) != 1 {
			t.Errorf("%+v", got)
		}
		rejected := 0
		for _, e := range drain(r.ep.events) {
			if s, ok := e.(SampleRejected); ok && errors.Is(s.Err, reliable.ErrNoAnswer) {
				rejected++
			}
		}
		if rejected != 2 {
			t.Errorf("%d rejected, want 2", rejected)
		}
	})
}
