package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
)

var limits = Limits{Properties: 3, Filters: 3, Levels: 4}

func str(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func packet(first byte, parts ...[]byte) []byte {
	body := cat(parts...)
	return append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...)
}

func props(parts ...[]byte) []byte {
	body := cat(parts...)
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

func users(n int) []byte { return bytes.Repeat([]byte{38, 0, 0, 0, 0}, n) }

func times(n int, b []byte) []byte { return bytes.Repeat(b, n) }

// scan has a scanner read packets in one piece and byte by byte.
func scan(t *testing.T, version byte, packets ...[]byte) error {
	t.Helper()
	all := cat(packets...)
	whole := Scanner{Limits: limits, Version: version}
	err := whole.Scan(all)
	single := Scanner{Limits: limits, Version: version}
	r := iotest.OneByteReader(bytes.NewReader(all))
	var again error
	for b := make([]byte, 1); again == nil; {
		if _, ended := r.Read(b); ended != nil {
			break
		}
		again = single.Scan(b)
	}
	if (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
		t.Errorf("in one piece: %v, byte by byte: %v", err, again)
	}
	return err
}

// A long packet is refused by its length, before the rest of it has come.
func TestLongPacketsAreRefused(t *testing.T) {
	longest := packet(0x30, str("a"), make([]byte, 300-3-3))
	for _, c := range []struct {
		packet []byte
		want   string
	}{{longest, ""}, {packet(0x30, str("a"), make([]byte, 300-2-3))[:3], "300 bytes"}} {
		s := Scanner{Limits: Limits{Properties: 3, Filters: 3, Levels: 4, Bytes: 300}, Version: 4}
		if err := s.Scan(c.packet); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d bytes: %v, want %q", len(c.packet), err, c.want)
		}
	}
}

func TestScan(t *testing.T) {
	id, long := []byte{0, 1}, []byte(strings.Repeat("x", 300_000))
	a, a0 := str("a"), append(str("a"), 0)
	for _, c := range []struct {
		name    string
		version byte
		packet  []byte
		want    string // "": accepted
	}{
		{"publish", 4, packet(0x30, str("a/b/c/d"), long), ""},
		{"publish at QoS 1", 4, packet(0x32, a, id, long), ""},
		{"publish without a payload", 4, packet(0x30, a), ""},
		{"publish too deep", 4, packet(0x30, str("a/b/c/d/e")), "levels"},
		{"publish 5", 5, packet(0x30, a, props(users(3)), long), ""},
		{"publish 5 without properties", 5, packet(0x32, a, id, props()), ""},
		{"publish 5 with all shapes", 5, packet(0x30, a, props([]byte{1, 1, 2, 0, 0, 0, 9}, []byte{8}, a), long), ""},
		{"publish 5 with many", 5, packet(0x30, a, props(users(4)), long), "properties"},
		{"publish 5 with 200,000", 5, packet(0x30, a, props(users(200_000))), "properties"},
		{"publish 5 with subscription ids", 5, packet(0x30, a, props(times(4, []byte{11, 1}))), "properties"},
		{"a property beyond its section", 5, packet(0x30, a, props([]byte{38, 0, 0, 0}), long), "malformed"},
		{"properties beyond the packet", 5, packet(0x30, a, binary.AppendUvarint(nil, 100_000), users(1000)), "malformed"},
		{"an unknown property", 5, packet(0x30, a, props([]byte{77}), long), "malformed"},
		{"subscribe", 4, packet(0x82, id, times(3, a0)), ""},
		{"subscribe 5", 5, packet(0x82, id, props(users(3)), times(3, a0)), ""},
		{"too many filters", 4, packet(0x82, id, times(4, a0)), "filters"},
		{"50,000 filters", 5, packet(0x82, id, props(), times(50_000, a0)), "filters"},
		{"a filter too deep", 4, packet(0x82, id, append(str("+/+/+/+/#"), 0)), "levels"},
		{"a filter without options", 5, packet(0x82, id, props(), a), "malformed"},
		{"unsubscribe", 4, packet(0xa2, id, times(3, a)), ""},
		{"unsubscribe 5", 5, packet(0xa2, id, props(), times(3, a)), ""},
		{"unsubscribe too many", 4, packet(0xa2, id, times(4, a)), "filters"},
		{"puback", 4, packet(0x40, id), ""},
		{"puback 5", 5, packet(0x40, id), ""},
		{"puback 5 with a reason", 5, packet(0x40, id, []byte{0}, props(users(3))), ""},
		{"puback 5 with many", 5, packet(0x40, id, []byte{0}, props(users(4))), "properties"},
		{"ping", 4, packet(0xc0), ""},
		{"disconnect", 4, packet(0xe0), ""},
		{"disconnect 5", 5, packet(0xe0, []byte{4}, props(users(3))), ""},
		{"disconnect 5 with many", 5, packet(0xe0, []byte{4}, props(users(4))), "properties"},
		{"auth of version 4 with many", 4, packet(0xf0, []byte{24}, props(users(4))), "properties"},
		{"a second connect", 5, packet(0x10, str("MQTT"), []byte{5, 2, 0, 60}, props(users(1000)), a), "malformed"},
		{"a suback", 5, packet(0x90, id), "malformed"},
		{"a length of five bytes", 4, []byte{0x30, 0xff, 0xff, 0xff, 0xff, 0x7f}, "malformed"},
	} {
		// The packets before and after are read as such.
		err := scan(t, c.version, packet(0xc0), c.packet, packet(0x30, a, times(1, props()), []byte("x")), packet(0xc0))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestParseConnect(t *testing.T) {
	head := func(flags byte) []byte { return cat(str("MQTT"), []byte{5, flags, 0, 60}) }
	got, err := ParseConnect(cat(head(0xc6), props(users(3)), str("id"), props(users(3)), str("w"), str("gone"), str("alice"), str("secret")), limits)
	if err != nil || got.ID != "id" || string(got.User) != "alice" || string(got.Password) != "secret" || got.Version != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = ParseConnect(cat(str("MQIsdp"), []byte{3, 2, 0, 60}, str("id")), limits)
	if err != nil || got.ID != "id" || got.User != nil || got.Version != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	for want, body := range map[string][]byte{
		"properties": cat(head(2), props(users(4)), str("id")),
		"levels":     cat(head(6), props(), str("id"), props(), str("a/b/c/d/e"), str("x")),
		"malformed":  cat(head(0xc2), props(), str("id"), str("alice")),
	} {
		if _, err := ParseConnect(body, limits); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	var beyond *LimitError
	if _, err := ParseConnect(cat(head(6), props(), str("id"), props(users(9)), str("w"), str("gone")), limits); !errors.As(err, &beyond) || beyond.What != Properties {
		t.Errorf("a will with many properties: %v", err)
	}
}

// Whatever comes, a scanner neither panics nor keeps more than has come.
func FuzzScan(f *testing.F) {
	f.Add(byte(5), packet(0x82, []byte{0, 1}, props(users(2)), append(str("a"), 0)))
	f.Add(byte(4), packet(0x30, str("a"), []byte("x")))
	f.Fuzz(func(t *testing.T, version byte, b []byte) {
		_ = scan(t, version, b)
		_, _ = ParseConnect(b, limits)
	})
}

func BenchmarkScan(b *testing.B) {
	s := Scanner{Limits: Limits{64, 128, 64, 0}, Version: 4}
	p := packet(0x30, str("padme/v1/default/node/alice/bob"), make([]byte, 100))
	for b.Loop() {
		if err := s.Scan(p); err != nil {
			b.Fatal(err)
		}
	}
}
