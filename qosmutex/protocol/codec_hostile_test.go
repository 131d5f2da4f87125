package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// header is the start of a message of kind k, as any values.
func header(k Kind) []any {
	return []any{Version, uint8(k), 0, "A", 1, "B", 2, 3, 4, 5, 6, 7, 8}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// with returns the header of k with element i replaced, and the fields after it.
func with(k Kind, i int, v any, fields ...any) []any {
	h := append(header(k), fields...)
	h[i] = v
	return h
}

func TestMalformedMessagesAreRefusedByName(t *testing.T) {
	request := []any{"D", 1, 9, 2, "crane", 1, 1, 0, 0}
	settings := func(i int, v any) []any {
		s := []any{1, 0, 0, 0, 0, "A", false, []any{"crane"}, "B"}
		s[i] = v
		return with(KindSettings, 0, Version, s)
	}
	release := func(entries any) []any {
		return with(KindRelease, 0, Version, "D", 1, 9, "crane", 3, 4, 5, 200, 300, entries)
	}
	handover := func(tokens, sessions any) []any {
		return with(KindHandover, 0, Version, tokens, sessions)
	}
	many := func(n int, v any) []any {
		all := make([]any, n)
		for i := range all {
			all[i] = v
		}
		return all
	}
	var deep any = 1
	for range 17 {
		deep = []any{deep}
	}
	for _, c := range []struct {
		name, want string
		v          any
	}{
		{"not an array", "message: type 0x07 is not an array", 7},
		{"a map", "message: type 0x81 is not an array", map[string]int{"a": 1}},
		{"short header", "message: has 12 elements, the header alone needs 13", header(KindNamed)[:12]},
		{"version 1", "version: 1 is not 2", with(KindNamed, 0, 1)},
		{"version text", "version: type 0xa1 is not an integer", with(KindNamed, 0, "1")},
		{"kind 0", "kind: 0 is unknown", with(KindNamed, 1, 0)},
		{"kind beyond", fmt.Sprintf("kind: %d is unknown", kindEnd), with(KindNamed, 1, int(kindEnd))},
		{"kind 300", "kind: 300 is above 255", with(KindNamed, 1, 300)},
		{"flags unknown", fmt.Sprintf("flags: unknown bits %#x", uint16(flagEnd)), with(KindNamed, 2, int(flagEnd|1))},
		{"flags negative", "flags: -1 is negative", with(KindNamed, 2, -1)},
		{"from nobody", "from: is empty", with(KindNamed, 3, "")},
		{"from long", "from: has 513 bytes, at most 512 are allowed", with(KindNamed, 3, strings.Repeat("x", MaxName+1))},
		{"from not text", "from: type 0xc4 is not a string", with(KindNamed, 3, []byte("A"))},
		{"from not UTF-8", `from: "\xff" is not UTF-8`, with(KindNamed, 3, "\xff")},
		{"from nil", "from: type 0xc0 is not a string", with(KindNamed, 3, nil)},
		{"incarnation negative", "from: -7 is negative", with(KindNamed, 4, -7)},
		{"epoch float", "epoch: type 0xcb is not an integer", with(KindNamed, 7, 1.5)},
		{"seq negative", "seq: -1 is negative", with(KindNamed, 10, int64(-1))},
		{"fields missing", "message: has 21 elements, a Request needs 22", append(header(KindRequest), request[:8]...)},
		{"client long", "client: has 65 bytes, at most 64 are allowed", with(KindRequest, 0, Version, append(slices.Clone(request), strings.Repeat("x", MaxClient+1))...)},
		{"client number", "client: type 0x07 is not a string", with(KindRequest, 0, Version, append(slices.Clone(request), 7)...)},
		{"client not UTF-8", `client: "\xff" is not UTF-8`, with(KindRequest, 0, Version, append(slices.Clone(request), "\xff")...)},
		{"priority too big", "priority: 9223372036854775808 is above 9223372036854775807", with(KindRequest, 16, uint64(math.MaxInt64)+1, request...)},
		{"hops too big", "hops: 4294967296 is above 4294967295", with(KindRequest, 18, uint64(1)<<32, request...)},
		{"hidden negative", "hidden: -2 is negative", with(KindRequest, 19, -2, request...)},
		{"reason", fmt.Sprintf("reason: %d is above %d", reasonEnd, reasonEnd-1), with(KindRefuse, 0, Version, int(reasonEnd), 0, 0, 0)},
		{"verdict", "verdict: 4 is above 3", with(KindReport, 0, Version, "D", 1, 9, "crane", 3, 4, 5, int(verdictEnd), "", 0, []any{}, 0)},
		{"fences backwards", "fences: 300 is behind the end 200", with(KindRelease, 0, Version, "D", 1, 9, "crane", 3, 4, 5, 300, 200, []any{})},
		{"model", "settings: 2 is above 1", settings(3, 2)},
		{"TTL negative", "ttl: -1 is negative", with(KindBeatAck, 0, Version, 1, 2, 3, -1, 0, 0, 0, 0, 0, 0, 0, 0)},
		{"settings model", "settings: 4 is above 3", settings(1, 4)},
		{"wish short", "wishes: has 2 elements, needs 6", with(KindToken, 0, Version, "D", 1, 9, 2, "crane", 0, 0, 0, 0, 0, 0, []any{}, []any{[]any{"D", 1}})},
		{"settings open", "settings: type 0x01 is not a boolean", settings(6, 1)},
		{"settings short", "settings: has 3 elements, needs 9", with(KindSettings, 0, Version, []any{1, 2, 3})},
		{"settings no array", "settings: type 0xc0 is not an array", with(KindSettings, 0, Version, nil)},
		{"resources number", "resources: type 0x01 is not a string", settings(7, []any{1})},
		{"resources many", "resources: has 65537 elements, at most 65536 are allowed", settings(7, many(MaxResources+1, "r"))},
		{"entry short", "entries: has 3 elements, needs 4", release([]any{[]any{"D", 1, 9}})},
		{"entry flat", "entries: type 0xa1 is not an array", release([]any{"D", 1, 9, 5})},
		{"entries many", "entries: has 1025 elements, at most 1024 are allowed", release(many(MaxEntries+1, []any{"D", 1, 9, 200}))},
		{"path long", "path: has 65 elements, at most 64 are allowed", with(KindReply, 0, Version, "D", 1, 9, 0, "crane", 3, 4, 5, 200, 300, 11, many(MaxPath+1, []any{"A", 1}), 0)},
		{"token short", "tokens: has 1 elements, needs 8", handover([]any{[]any{"crane"}}, []any{})},
		{"tokens many", "tokens: has 65537 elements, at most 65536 are allowed", handover(many(MaxTokens+1, []any{}), []any{})},
		{"token client", "tokens: has 65 bytes, at most 64 are allowed", handover([]any{[]any{"crane", 3, 4, 5, "D", 1, 9, 7, strings.Repeat("x", MaxClient+1)}}, []any{})},
		{"session short", "sessions: has 1 elements, needs 2", handover([]any{}, []any{[]any{"A"}})},
		{"sessions many", "sessions: has 65537 elements, at most 65536 are allowed", handover([]any{}, many(MaxSessions+1, []any{}))},
		{"appended too deep", "appended fields: is nested deeper than 16", append(header(KindNamed), deep)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			err := new(Decoder).Decode(encode(t, c.v), &m)
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("got %v, want ErrMalformed", err)
			}
			if !strings.HasPrefix(err.Error(), ErrMalformed.Error()+": "+c.want) {
				t.Errorf("got  %v\nwant %v: %s", err, ErrMalformed, c.want)
			}
		})
	}
}

func TestBytesAfterTheMessageAreRefused(t *testing.T) {
	var m Message
	b := AppendMessage(nil, &Message{Kind: KindNamed, From: Node{"A", 1}})
	if err := new(Decoder).Decode(append(b, 0xc0), &m); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %v", err)
	}
	if err := new(Decoder).Decode(append(b[:len(b):len(b)], b...), &m); !errors.Is(err, ErrMalformed) {
		t.Errorf("two messages in one: %v", err)
	}
}

// claims are short inputs that promise far more than they hold.
func claims() map[string][]byte {
	start := func(k Kind, n int) []byte {
		b := AppendMessage(nil, &Message{Kind: k, From: Node{"A", 1}})
		return b[:len(b)-n]
	}
	huge := func(b []byte, code byte) []byte { return append(b, code, 0xff, 0xff, 0xff, 0xff) }
	release := start(KindRelease, 1)
	handover := start(KindHandover, 2)
	named := append([]byte{msgpcode.FixedArrayLow | 14}, start(KindNamed, 0)[1:]...)
	return map[string][]byte{
		"message":           huge(nil, msgpcode.Array32),
		"from":              append(bytes.Clone([]byte{msgpcode.Array16, 0, 13, Version, 8, 0}), msgpcode.Str32, 0xff, 0xff, 0xff, 0xff),
		"entries":           huge(release, msgpcode.Array32),
		"tokens":            huge(bytes.Clone(handover), msgpcode.Array32),
		"sessions":          huge(append(bytes.Clone(handover), msgpcode.FixedArrayLow), msgpcode.Array32),
		"appended array":    huge(bytes.Clone(named), msgpcode.Array32),
		"appended map":      huge(bytes.Clone(named), msgpcode.Map32),
		"appended string":   huge(bytes.Clone(named), msgpcode.Str32),
		"appended bytes":    huge(bytes.Clone(named), msgpcode.Bin32),
		"appended ext":      huge(bytes.Clone(named), msgpcode.Ext32),
		"appended nesting":  append(bytes.Clone(named), bytes.Repeat([]byte{msgpcode.FixedArrayLow | 1}, 100_000)...),
		"appended map nest": append(bytes.Clone(named), bytes.Repeat([]byte{msgpcode.FixedMapLow | 1}, 100_000)...),
		"entries nesting":   append(bytes.Clone(release), bytes.Repeat([]byte{msgpcode.FixedArrayLow | 1}, 100_000)...),
		"message nesting":   bytes.Repeat([]byte{msgpcode.FixedArrayLow | 1}, 100_000),
		"reserved code":     append(bytes.Clone(named), 0xc1),
	}
}

func TestClaimsAllocateNothing(t *testing.T) {
	const limit = 4 << 10 // bytes: the error and its text
	for name, b := range claims() {
		var d Decoder
		var m Message
		if err := d.Decode(b, &m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", name, err)
			continue
		} else if bytes.HasSuffix(b, []byte{0xff, 0xff, 0xff, 0xff}) && name != "from" && !strings.Contains(err.Error(), ": claims ") {
			t.Errorf("%s: the claim itself is not refused: %v", name, err)
		}
		var before, after runtime.MemStats
		const runs = 50
		runtime.ReadMemStats(&before)
		for range runs {
			_ = d.Decode(b, &m)
		}
		runtime.ReadMemStats(&after)
		if per := (after.TotalAlloc - before.TotalAlloc) / runs; per > limit {
			t.Errorf("%s: %d bytes of input allocate %d bytes", name, len(b), per)
		}
	}
}

// A million different names must not stay in memory.
func TestRememberedNamesAreBounded(t *testing.T) {
	var d Decoder
	var got Message
	var b []byte
	m := Message{Kind: KindNamed, From: Node{"A", 1}}
	for i := range 3 * maxInterned {
		m.From.ID = strings.Repeat("x", i%MaxName) + string(rune('a'+i%26)) + string(rune(0x100+i))
		if len(m.From.ID) > MaxName {
			continue
		}
		b = AppendMessage(b[:0], &m)
		if err := d.Decode(b, &got); err != nil {
			t.Fatal(err)
		}
		if got.From.ID != m.From.ID {
			t.Fatalf("got %q, want %q", got.From.ID, m.From.ID)
		}
		if len(d.names) > maxInterned {
			t.Fatalf("%d names remembered", len(d.names))
		}
	}
}

// What Decode returned must not change when the caller reuses its buffer.
func TestNothingSharesMemoryWithTheInput(t *testing.T) {
	m := reply()
	b := AppendMessage(nil, &m)
	var got Message
	if err := new(Decoder).Decode(b, &got); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if d := diff(&m, &got); d != "" {
		t.Error(d)
	}
}

func FuzzDecode(f *testing.F) {
	for k := KindNone + 1; k < kindEnd; k++ {
		m := full(k)
		f.Add(AppendMessage(nil, &m))
	}
	for _, b := range claims() {
		if len(b) < 1000 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		m := full(KindHandover) // leftovers must not matter
		if d.Decode(b, &m) != nil {
			return
		}
		again := AppendMessage(nil, &m)
		var m2 Message
		if err := d.Decode(again, &m2); err != nil {
			t.Fatalf("accepted %x, but not its own form of it, %x: %v", b, again, err)
		}
		if d := diff(&m, &m2); d != "" {
			t.Fatalf("%x (-first +again):\n%s", b, d)
		}
		if len(again) > len(b) {
			t.Fatalf("%x grew to %x", b, again)
		}
	})
}

// full has every field set.
func full(k Kind) Message {
	a, b := Node{"A", 1}, Node{"Bob", 1 << 40}
	e := Epoch{3, 1 << 63}
	id := RequestID{b, 300}
	path := []Node{a, b}
	return Message{
		Kind: k, Flags: FlagFree | FlagRoot, From: a, To: b, Epoch: e, Root: a, Link: 5, Seq: 70000, Ack: 7, Clock: 8,
		ID: id, Client: "esp32", Priority: -200, Resource: "crane", Hops: 2, Hidden: 3, Depth: 4, Members: 5, Grant: Grant{e, 20}, Fences: Fences{1 << 50, 1<<50 + 100},
		Session: 11, Sent: 123456789012, Number: 9, TTL: 3 * Second, Parent: b, MoveTo: b, Least: b, Ended: b, LeastP: math.MinInt64, PassedTo: b, Reason: ReasonFull, Verdict: VerdictPassed,
		Settings: Settings{Version: 4, Models: Models{Fair, RequestReplace, Use, Use}, Resources: []string{"crane", "lift"}, Open: true},
		Path:     path, Entries: []Entry{{id, 1 << 50}, {RequestID{a, 1}, 1<<50 + 1}},
		Tokens:   []TokenState{{"crane", Grant{e, 20}, id, 1 << 51, "esp32"}, {Resource: "lift"}},
		Sessions: path,
		Within:   Second, Hold: 20 * Millisecond, Wishes: []Wish{{id, -3, Second, Millisecond}, {ID: RequestID{a, 1}}}, Until: 3 * Second,
	}
}
