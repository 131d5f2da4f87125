package broker

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
)

// What is charged for a retained message is not less than what it takes from the heap,
// whatever it is large in, and for an ordinary one not much more.
func TestRetainedMessagesCostWhatIsCharged(t *testing.T) {
	user := func(n, size int) (all []packets.UserProperty) {
		return slices.Repeat([]packets.UserProperty{{Key: "k", Val: strings.Repeat("x", size)}}, n)
	}
	for _, c := range []struct {
		name       string
		n          int
		topic      func(i int) string
		payload    int
		properties packets.Properties
	}{
		{"ordinary", 10_000, func(i int) string { return fmt.Sprintf("padme/v1/default/data/p/t/k%d/alice/w", i) }, 100, packets.Properties{}},
		{"levels", 1_000, func(i int) string { return fmt.Sprint(i) + strings.Repeat("/x", 31) }, 1, packets.Properties{}},
		{"short levels", 10_000, func(i int) string { return fmt.Sprintf("%d/x/y/z", i) }, 1, packets.Properties{}},
		{"payload", 50, func(i int) string { return fmt.Sprint(i) }, 1_000_000, packets.Properties{}},
		{"a long topic", 500, func(i int) string { return fmt.Sprint(strings.Repeat("x", 60_000), i) }, 1, packets.Properties{}},
		{"empty properties", 2_000, func(i int) string { return fmt.Sprint(i) }, 1, packets.Properties{User: user(64, 0)}},
		{"long properties", 50, func(i int) string { return fmt.Sprint(i) }, 1, packets.Properties{User: user(16, 60_000)}},
	} {
		b, err := Start(context.Background(), Config{Limits: Limits{Retained: 1 << 30}})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := b.Dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		send := func(pk packets.Packet, encode func(*packets.Packet, *bytes.Buffer) error) {
			var buf bytes.Buffer
			pk.ProtocolVersion = 5
			if err := encode(&pk, &buf); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(buf.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}, Connect: packets.ConnectParams{ProtocolName: []byte("MQTT"), Clean: true, ClientIdentifier: "x"}}, (*packets.Packet).ConnectEncode)
		skip(t, conn)
		before := heap()
		payload := bytes.Repeat([]byte("x"), c.payload)
		for i := range c.n {
			send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1, Retain: true}, PacketID: 1, TopicName: c.topic(i), Payload: payload, Properties: c.properties}, (*packets.Packet).PublishEncode)
			skip(t, conn)
		}
		taken := int64(heap()) - int64(before)
		b.access.quota.mu.Lock()
		charged := b.access.quota.used[room{}]
		b.access.quota.mu.Unlock()
		t.Logf("%s: %d bytes each are charged, %d taken", c.name, charged/int64(c.n), taken/int64(c.n))
		if taken > charged {
			t.Errorf("%s: a message takes %d bytes, and is charged %d", c.name, taken/int64(c.n), charged/int64(c.n))
		}
		if c.name == "ordinary" && charged > 4*taken {
			t.Errorf("%s: a message takes %d bytes, and is charged %d", c.name, taken/int64(c.n), charged/int64(c.n))
		}
		_ = conn.Close()
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// skip reads a packet of less than 128 bytes.
func skip(t *testing.T, c net.Conn) {
	t.Helper()
	buf := make([]byte, 256)
	if _, err := c.Read(buf); err != nil {
		t.Fatal(err)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestFiltersMatch(t *testing.T) {
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a/b", false},
		{"a/b", "a", false},
		{"+", "a", true},
		{"+", "a/b", false},
		{"a/+", "a/b", true},
		{"a/+", "a", false},
		{"a/+", "a/", true},
		{"+/b", "a/b", true},
		{"+/b/+", "a/b/c", true},
		{"a/+/c", "a/b/d", false},
		{"#", "a", true},
		{"#", "a/b", true},
		{"a/#", "a", true},
		{"a/#", "a/b/c", true},
		{"a/#", "ab", false},
		{"a/b/#", "a", false},
		{"+/#", "a", true},
		{"+/b/#", "a/b", true},
		{"#", "$x/a", false},
		{"+/a", "$x/a", false},
		{"$x/#", "$x/a", true},
	} {
		if got := matches(c.filter, c.topic); got != c.want {
			t.Errorf("%q matches %q: %v", c.filter, c.topic, got)
		}
	}
}

// The index of topics finds what a look at all of them would.
func TestMatchingTopics(t *testing.T) {
	q := newQuota(1<<30, acl{})
	topics := []string{"a", "a/b", "a/b/c", "a.b", "ab", "ab/c", "b", "$x/a", "/a", ""}
	for i := range 3 {
		for _, topic := range topics {
			q.keep("alice", topic, int64(i+1))
		}
	}
	q.keep("bob", "b", 0)
	for _, filter := range []string{"#", "+", "a/#", "a/+", "+/b", "+/b/#", "ab", "b", "$x/#", "$x/+", "/+", "a/b/#", "a/+/c", "none/#"} {
		var want []string
		for _, topic := range topics {
			if topic != "b" && topic != "" && matches(filter, topic) {
				want = append(want, topic)
			}
		}
		got := slices.DeleteFunc(q.matching(filter), func(s string) bool { return s == "" })
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", filter, got, want)
		}
	}
}
