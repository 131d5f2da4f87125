package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
	"pgregory.net/rapid"
)

func drawModels(t *rapid.T) Models {
	m := rapid.SampledFrom(AllModels()).Draw(t, "models")
	switch rapid.IntRange(0, 5).Draw(t, "further") {
	case 0:
		m.Release = Retain
	case 1:
		m.Release = Direct
	}
	return m
}

func drawName(t *rapid.T, label string, empty bool) string {
	least := 1
	if empty {
		least = 0
	}
	short := rapid.StringN(least, -1, 12)
	long := rapid.StringN(33, -1, MaxName)
	return rapid.OneOf(short, short, short, long).Draw(t, label)
}

func drawNode(t *rapid.T, label string) Node {
	return Node{drawName(t, label, true), rapid.Uint64().Draw(t, label)}
}

func drawRequestID(t *rapid.T) RequestID {
	return RequestID{drawNode(t, "id"), rapid.Uint64().Draw(t, "clock")}
}

func drawGrant(t *rapid.T) Grant {
	return Grant{Epoch{rapid.Uint64().Draw(t, "number"), rapid.Uint64().Draw(t, "tie")}, rapid.Uint64().Draw(t, "grant")}
}

func drawPath(t *rapid.T) []Node {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Node { return drawNode(t, "hop") }), 0, 20).Draw(t, "path")
}

// drawMessage fills every field, whether the kind carries it or not.
func drawMessage(t *rapid.T) Message {
	u64 := func(label string) uint64 { return rapid.Uint64().Draw(t, label) }
	m := Message{
		Kind: Kind(rapid.IntRange(1, int(kindEnd)-1).Draw(t, "kind")), Flags: Flags(rapid.Uint16Range(0, uint16(knownFlags)).Draw(t, "flags")),
		From: Node{drawName(t, "from", false), u64("inc")}, To: drawNode(t, "to"), Root: drawNode(t, "root"), Parent: drawNode(t, "parent"),
		MoveTo: drawNode(t, "moveTo"), Least: drawNode(t, "least"), Ended: drawNode(t, "ended"), PassedTo: drawNode(t, "passedTo"),
		Epoch: Epoch{u64("epoch"), u64("tie")}, Link: u64("link"), Seq: u64("seq"), Ack: u64("ack"), Clock: u64("clock"),
		ID: drawRequestID(t), Priority: rapid.Int64().Draw(t, "priority"), LeastP: rapid.Int64().Draw(t, "leastP"),
		Resource: drawName(t, "resource", true), Hops: rapid.Uint32().Draw(t, "hops"), Hidden: rapid.Uint32().Draw(t, "hidden"),
		Depth: rapid.Uint32().Draw(t, "depth"), Members: rapid.Uint32().Draw(t, "members"),
		Grant: drawGrant(t), Session: u64("session"), Sent: Time(rapid.Int64().Draw(t, "sent")), Number: u64("number"),
		TTL:    Time(rapid.Int64Min(0).Draw(t, "ttl")),
		Reason: Reason(rapid.IntRange(0, int(reasonEnd)-1).Draw(t, "reason")), Verdict: Verdict(rapid.IntRange(0, int(verdictEnd)-1).Draw(t, "verdict")),
		Path: drawPath(t),
	}
	m.Client = rapid.StringN(0, -1, MaxClient).Draw(t, "client")
	m.Within, m.Hold = Duration(rapid.Int64().Draw(t, "within")), Duration(rapid.Int64().Draw(t, "hold"))
	m.Wishes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Wish {
		return Wish{drawRequestID(t), rapid.Int64().Draw(t, "priority"), Duration(rapid.Int64().Draw(t, "within")), Duration(rapid.Int64().Draw(t, "hold"))}
	}), 0, 5).Draw(t, "wishes")
	m.Fences.End = u64("end")
	m.Fences.Next = rapid.Uint64Max(m.Fences.End).Draw(t, "next")
	m.Settings = Settings{
		Version: u64("version"), Models: drawModels(t), Open: rapid.Bool().Draw(t, "open"),
		Resources: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawName(t, "declared", true) }), 0, 40).Draw(t, "resources"),
		ModelsBy:  drawName(t, "models by", true), ResourcesBy: drawName(t, "resources by", true),
	}
	m.Entries = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Entry {
		return Entry{drawRequestID(t), rapid.Uint64().Draw(t, "fence")}
	}), 0, 20).Draw(t, "entries")
	m.Tokens = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) TokenState {
		return TokenState{drawName(t, "resource", true), drawGrant(t), drawRequestID(t), rapid.Uint64().Draw(t, "fence"), rapid.StringN(0, -1, MaxClient).Draw(t, "client")}
	}), 0, 5).Draw(t, "tokens")
	m.Former = Former{u64("former"), rapid.Uint64Min(1).Draw(t, "its session")}
	m.Sessions = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Node { return drawNode(t, "node") }), 0, 5).Draw(t, "sessions")
	m.Schedule = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Scheduled {
		return Scheduled{u64("number"), drawRequestID(t), rapid.Int64().Draw(t, "priority"), u64("fence"), u64("session")}
	}), 0, ScheduleLength).Draw(t, "schedule")
	return m
}

var parenthesis = regexp.MustCompile(`\([^)]*\)`)

// documented returns the fields of each kind as the comment of Message lists
// them, which is what the machines are written against.
func documented(t testing.TB) map[Kind][]string {
	t.Helper()
	source, err := os.ReadFile("message.go")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[Kind][]string{}
	for k := KindNone + 1; k < kindEnd; k++ {
		row := regexp.MustCompile(`(?m)^//\t` + k.String() + ` +(.*)$`).FindSubmatch(source)
		if row == nil {
			t.Fatalf("the comment of Message has no row for %v", k)
		}
		text := strings.ReplaceAll(string(row[1]), "Settings (Models only)", "Models")
		fields[k] = strings.Fields(strings.Trim(parenthesis.ReplaceAllString(text, ""), "-"))
	}
	return fields
}

// expected is what the receiver of m sees.
func expected(m *Message, fields []string) *Message {
	want := &Message{
		Kind: m.Kind, Flags: m.Flags, From: m.From, To: m.To, Epoch: m.Epoch,
		Link: m.Link, Seq: m.Seq, Ack: m.Ack, Clock: m.Clock,
	}
	for _, name := range fields {
		if name == "Models" {
			want.Settings.Models = m.Settings.Models
			continue
		}
		reflect.ValueOf(want).Elem().FieldByName(name).Set(reflect.ValueOf(m).Elem().FieldByName(name))
	}
	return want
}

func diff(want, got *Message) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

func TestEveryKindSurvivesTheWire(t *testing.T) {
	fields := documented(t)
	var d Decoder
	var got Message // reused, so that leftovers of one message would show in the next
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		b := AppendMessage([]byte("before"), &m)
		if !bytes.HasPrefix(b, []byte("before")) {
			t.Fatal("what was in dst is gone")
		}
		b = b[len("before"):]
		if err := d.Decode(b, &got); err != nil {
			t.Fatalf("%v: %v", m.Kind, err)
		}
		if d := diff(expected(&m, fields[m.Kind]), &got); d != "" {
			t.Fatalf("%v (-sent +received):\n%s", m.Kind, d)
		}
		if again := AppendMessage(nil, &got); !bytes.Equal(again, b) {
			t.Fatalf("%v encodes differently after a trip:\n%x\n%x", m.Kind, b, again)
		}
	})
}

func TestTheTableInTheCommentIsTheTableInUse(t *testing.T) {
	source, err := os.ReadFile("codec.go")
	if err != nil {
		t.Fatal(err)
	}
	for k := KindNone + 1; k < kindEnd; k++ {
		var words []string
		for _, f := range carried[k] {
			words = append(words, fieldNames[f])
		}
		if words == nil {
			words = []string{"-"}
		}
		row := fmt.Sprintf("//\t%-9s %s\n", k, strings.Join(words, " "))
		if !bytes.Contains(source, []byte(row)) {
			t.Errorf("the comment of carried lacks the row %q", row)
		}
	}
}

// other encodes what another msgpack implementation may legally send: values as
// vmihailenco decoded them, every number and length in a width of our choice.
func other(t *rapid.T, enc *msgpack.Encoder, v any) {
	choose := func(from, to int) int { return rapid.IntRange(from, to).Draw(t, "width") }
	var err error
	switch v := v.(type) {
	case []any:
		err = writeLength(enc, choose(widthFor(len(v), 16), 2), len(v), msgpcode.FixedArrayLow, []byte{0, msgpcode.Array16, msgpcode.Array32})
		for _, e := range v {
			other(t, enc, e)
		}
	case string:
		err = writeLength(enc, choose(widthFor(len(v), 32), 2), len(v), msgpcode.FixedStrLow, []byte{msgpcode.Str8, msgpcode.Str16, msgpcode.Str32})
		if _, werr := enc.Writer().Write([]byte(v)); werr != nil {
			err = werr
		}
	case bool:
		err = enc.EncodeBool(v)
	case int64:
		err = encodeSigned(enc, choose(0, 4), v)
	case uint64:
		if v <= math.MaxInt64 && rapid.Bool().Draw(t, "signed") {
			err = encodeSigned(enc, choose(0, 4), int64(v))
			break
		}
		switch w := choose(0, 4); {
		case w == 0:
			err = enc.EncodeUint(v)
		case w == 1 && v <= math.MaxUint8:
			err = enc.EncodeUint8(uint8(v))
		case w <= 2 && v <= math.MaxUint16:
			err = enc.EncodeUint16(uint16(v))
		case w <= 3 && v <= math.MaxUint32:
			err = enc.EncodeUint32(uint32(v))
		default:
			err = enc.EncodeUint64(v)
		}
	default:
		t.Fatalf("unexpected %T in a message", v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func encodeSigned(enc *msgpack.Encoder, w int, v int64) error {
	switch {
	case w == 0:
		return enc.EncodeInt(v)
	case w == 1 && v == int64(int8(v)):
		return enc.EncodeInt8(int8(v))
	case w <= 2 && v == int64(int16(v)):
		return enc.EncodeInt16(int16(v))
	case w <= 3 && v == int64(int32(v)):
		return enc.EncodeInt32(int32(v))
	}
	return enc.EncodeInt64(v)
}

// widthFor is the least of the four length forms (−1: in the code itself) that
// holds n.
func widthFor(n, fix int) int {
	switch {
	case n < fix:
		return -1
	case n < 1<<8 && fix == 32:
		return 0
	}
	return 1
}

func writeLength(enc *msgpack.Encoder, w, n int, fix byte, codes []byte) error {
	var b []byte
	switch {
	case w < 0:
		b = []byte{fix | byte(n)}
	case w == 0 && codes[0] != 0:
		b = []byte{codes[0], byte(n)}
	case w <= 1:
		b = []byte{codes[1], byte(n >> 8), byte(n)}
	default:
		b = []byte{codes[2], byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	}
	_, err := enc.Writer().Write(b)
	return err
}

func TestOtherImplementationsReadAndWriteIt(t *testing.T) {
	fields := documented(t)
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		dec := msgpack.NewDecoder(bytes.NewReader(AppendMessage(nil, &m)))
		dec.UseLooseInterfaceDecoding(true)
		v, err := dec.DecodeInterface()
		if err != nil {
			t.Fatalf("vmihailenco/msgpack cannot read a %v: %v", m.Kind, err)
		}
		var buf bytes.Buffer
		enc := msgpack.NewEncoder(&buf)
		enc.UseCompactInts(rapid.Bool().Draw(t, "compact"))
		other(t, enc, v)
		var got Message
		if err := d.Decode(buf.Bytes(), &got); err != nil {
			t.Fatalf("%v written by vmihailenco/msgpack: %v\n%x", m.Kind, err, buf.Bytes())
		}
		if d := diff(expected(&m, fields[m.Kind]), &got); d != "" {
			t.Fatalf("%v (-sent +received):\n%s", m.Kind, d)
		}
	})
}

// The bytes of one message of each form, so that a change of the layout that
// keeps encoder and decoder in step is still noticed.
func TestTheLayoutStays(t *testing.T) {
	m := reply()
	want := "dc001a" + // array of 26
		"020200" + // version 2, Reply, no flags
		"a14101" + "a14202" + // from A run 1, to B run 2
		"0304" + "050607" + "08" + // epoch 3.4, link 5, seq 6, ack 7, clock 8
		"a14402" + "09" + // request of D run 2, clock 9
		"fe" + "a56372616e65" + // priority -2, crane
		"030414" + // grant 20 of epoch 3.4
		"ccc8" + "cd012c" + // fences [200, 300)
		"0b" + // session 11
		"9292a1410192a14202" + // path A B
		"cd0190" // until 400
	if got := fmt.Sprintf("%x", AppendMessage(nil, &m)); got != want {
		t.Errorf("the layout of a Reply changed:\n got %s\nwant %s", got, want)
	}
}

// Nobody pays for the clients of others: a message without one is as it was before there
// were any.
func TestAClientThatIsNotThereTakesNoRoom(t *testing.T) {
	for _, k := range []Kind{KindRequest, KindReport} {
		m := full(k)
		with := AppendMessage(nil, &m)
		m.Client = ""
		without := AppendMessage(nil, &m)
		if want := append([]byte{msgpcode.Array16, 0, byte(widths[k])}, with[3:len(with)-len("\xa5esp32")]...); !bytes.Equal(without, want) {
			t.Errorf("%v: without a client\n got %x\nwant %x", k, without, want)
		}
	}
}

func reply() Message {
	a, b := Node{"A", 1}, Node{"B", 2}
	e := Epoch{3, 4}
	return Message{
		Kind: KindReply, From: a, To: b, Epoch: e, Link: 5, Seq: 6, Ack: 7, Clock: 8,
		ID: RequestID{Node{"D", 2}, 9}, Priority: -2, Resource: "crane", Grant: Grant{e, 20}, Fences: Fences{200, 300},
		Session: 11, Path: []Node{a, b}, Until: 400,
	}
}

func TestEncodingAnInvalidKindPanics(t *testing.T) {
	for _, k := range []Kind{KindNone, kindEnd, 255} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("kind %d was encoded", k)
				}
			}()
			AppendMessage(nil, &Message{Kind: k})
		}()
	}
}

func TestLaterVersionsMayAppendFields(t *testing.T) {
	appended := []any{nil, -1, "x", []any{1, []any{2}}, map[string]any{"a": []byte{1, 2}}, 1.5, float32(2), true, uint64(math.MaxUint64), make([]byte, 300), strings.Repeat("y", 70000)}
	extension := []byte{0xc7, 3, 1, 9, 9, 9, 0xd4, 1, 7, 0xd8, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xc8, 0, 1, 5, 5, 0xde, 0, 1, 1, 2, 0xdf, 0, 0, 0, 1, 1, 2}
	m := reply()
	m.Path, m.Schedule = []Node{{"A", 1}}, []Scheduled{{Number: 1}}
	b := AppendMessage(nil, &m)
	const rest = 12 // bytes of until and schedule
	after := slices.Clone(b[len(b)-rest:])
	b = append(b[:len(b)-rest-5], 0x91, 0x93, 0xa1, 'A', 1, 0xc0) // the node of the path has a third element now
	b = append(b, after...)
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	for _, v := range appended {
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	n := width(&m) + len(appended) + 6 // elements in extension
	b = append([]byte{msgpcode.Array16, byte(n >> 8), byte(n)}, b[3:]...)
	b = append(append(b, buf.Bytes()...), extension...)
	var got Message
	if err := new(Decoder).Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	if d := diff(&m, &got); d != "" {
		t.Error(d)
	}
	for cut := range b {
		if err := new(Decoder).Decode(b[:cut], &got); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut to %d of %d bytes: %v", cut, len(b), err)
		}
	}
}
