package protocol

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func exampleRecord() Record {
	return Record{
		Term: 3, Root: Node{"serve-1", 17}, Place: "m/b/crane", Lease: 1500 * Millisecond, TTL: 3 * Second, Ceiling: 1 << 16,
		Settings: Settings{Version: 2, Models: Models{Priority: Fair}, ModelsBy: "A", Resources: []string{"crane"}, Open: true, ResourcesBy: "B"},
	}
}

func TestRecordLayout(t *testing.T) {
	r := exampleRecord()
	want := "99" + "01" + "03" + "a773657276652d31" + "11" + "a96d2f622f6372616e65" +
		"ce59682f00" + "ceb2d05e00" + "ce00010000" +
		"99" + "02" + "01000000" + "a141" + "c3" + "91a56372616e65" + "a142"
	if got := fmt.Sprintf("%x", AppendRecord(nil, &r)); got != want {
		t.Errorf("the layout of a record changed:\n got %s\nwant %s", got, want)
	}
}

// drawResource draws the name of a resource, which is never empty.
func drawResource(t *rapid.T) string {
	if name := drawName(t, "resource", true); len(name) < MaxName {
		return "r" + name
	}
	return "r"
}

func drawRecord(t *rapid.T) Record {
	ttl := Duration(rapid.Int64Range(int64(2*MinLease), int64(MaxTTL)).Draw(t, "ttl"))
	return Record{
		Term: rapid.Uint64Min(1).Draw(t, "term"), Root: drawNode(t, "root"), Place: drawName(t, "place", true),
		TTL: ttl, Lease: Duration(rapid.Int64Range(int64(MinLease), int64(ttl/2)).Draw(t, "lease")),
		Ceiling: rapid.Uint64Range(1, MaxCeiling).Draw(t, "ceiling"),
		Settings: Settings{
			Version: rapid.Uint64().Draw(t, "version"), Models: drawModels(t), Open: rapid.Bool().Draw(t, "open"),
			Resources: rapid.SliceOfN(rapid.Custom(drawResource), 0, 40).Draw(t, "resources"),
			ModelsBy:  drawName(t, "models by", true), ResourcesBy: drawName(t, "resources by", true),
		},
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		b := AppendRecord(nil, &r)
		got, err := DecodeRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if _, err := DecodeRecord(b[:cut]); !errors.Is(err, ErrRecord) {
			t.Fatalf("of %d bytes the first %d: %v", len(b), cut, err)
		}
	})
}

func TestRecordsThatNobodyWritesAreRefused(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Record)
	}{
		{"term is 0", func(r *Record) { r.Term = 0 }},
		{"TTL of 0 ns", func(r *Record) { r.TTL = 0 }},
		{"ttl: 18446744073709551615 is above", func(r *Record) { r.TTL = -1 }},
		{"TTL of 9223372036854775807 ns", func(r *Record) { r.TTL = math.MaxInt64 }},
		{"lease of 1500000001 ns", func(r *Record) { r.Lease++ }},
		{"lease of 1 ns", func(r *Record) { r.Lease = 1 }},
		{"fence ceiling 0", func(r *Record) { r.Ceiling = 0 }},
		{"ceiling: 4611686018427387905 is above", func(r *Record) { r.Ceiling = MaxCeiling + 1 }},
		{"root: has 513 bytes", func(r *Record) { r.Root.ID = strings.Repeat("x", MaxName+1) }},
		{"place: \"\\xff\" is not UTF-8", func(r *Record) { r.Place = "\xff" }},
		{"at most 65536 are allowed", func(r *Record) {
			r.Settings.Resources = make([]string, 200)
			for i := range r.Settings.Resources {
				r.Settings.Resources[i] = strings.Repeat("x", MaxName)
			}
		}},
	} {
		r := exampleRecord()
		c.change(&r)
		if _, err := DecodeRecord(AppendRecord(nil, &r)); !errors.Is(err, ErrRecord) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
		if err := r.Validate(); !errors.Is(err, ErrRecord) {
			t.Errorf("%q: Validate says %v", c.want, err)
		}
	}
}

func TestRecordsOfOtherVersions(t *testing.T) {
	r := exampleRecord()
	b := AppendRecord(nil, &r)
	later := append([]byte{b[0] + 1}, b[1:]...)
	later = append(later, 0x93, 1, 2, 3) // an appended field
	if got, err := DecodeRecord(later); err != nil || cmp.Diff(r, got) != "" {
		t.Errorf("with a field appended: %+v, %v", got, err)
	}
	b[1] = 2
	if _, err := DecodeRecord(b); err == nil || !strings.Contains(err.Error(), "version: 2 is not 1") {
		t.Errorf("version 2: %v", err)
	}
}

func TestRecordClaimsAllocateNothing(t *testing.T) {
	r := exampleRecord()
	r.Settings.Resources = nil
	b := AppendRecord(nil, &r)
	claim := append(b[:len(b)-1:len(b)-1], 0xdd, 0xff, 0xff, 0xff, 0xff) // 2^32-1 resources
	if n := testing.AllocsPerRun(10, func() { _, _ = DecodeRecord(claim) }); n > 30 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecodeRecord: whatever is accepted is valid, and is the same when it is written
// and read again.
func FuzzDecodeRecord(f *testing.F) {
	r := exampleRecord()
	f.Add(AppendRecord(nil, &r))
	r.Settings.Resources, r.Root, r.Settings.ModelsBy = nil, Node{}, ""
	f.Add(AppendRecord(nil, &r))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(b)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeRecord(AppendRecord(nil, &r))
		if err != nil || cmp.Diff(r, again, cmpopts.EquateEmpty()) != "" {
			t.Fatalf("%+v became %+v: %v", r, again, err)
		}
	})
}
