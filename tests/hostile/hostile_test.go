//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"padme/pubsub"
	"padme/qosmutex/protocol"
	"padme/tests/extent"
	"padme/tests/poll"
)

const (
	r = "padme/v1/default/"

	refused  = "padme_broker_refused_total"
	cut      = "padme_broker_cut_total"
	messages = "pubsub_dropped_total"
	dropped  = "qosmutex_dropped_total"
	replayed = "qosmutex_refused_total"
)

// most is what all of the attacks together may cost the node, in bytes of resident
// memory above what it had with its honest members at work. One account may keep 64
// MB retained, which is sent to each of those that subscribe to everything, and the
// garbage collector lets the heap grow to its double.
const most = 512 << 20

func TestHostileClient(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	spy := n.as(t, "spy") // an operator, whose recordings are what a wiretap would have
	spy.listen(t, "padme/#")
	h := startHonest(t, n)
	h.goOn(t)
	if lies := n.sum(t, dropped, `"foreign"`); lies > 0 {
		t.Errorf("%v of the root's own publications taken for lies", lies)
	}
	base := n.memory(t, "VmRSS")
	for _, attack := range []struct {
		name string
		run  func(*testing.T, *node, *honest, *raw)
		long string
	}{
		{"wrong user", wrongUser, ""},
		{"forged sender", forgedSender, ""},
		{"forged state", forgedState, ""},
		{"replayed lock messages", replayedMessages, ""},
		{"replayed samples", replayedSamples, ""},
		{"lengths that lie", lengths, "each waits to be cut off"},
		{"flood", flood, "twenty seconds of packets"},
		{"subscribing to everything", subscribeAll, ""},
		{"connections without CONNECT", silentConnections, "they wait to be cut off"},
	} {
		t.Run(attack.name, func(t *testing.T) {
			if attack.long != "" {
				extent.Long(t, attack.long)
			}
			h.during(t, func() { attack.run(t, n, h, spy) })
			t.Logf("%d entries; resident %d MB, %d MB at most so far", h.entries.Load(), n.memory(t, "VmRSS")>>20, n.memory(t, "VmHWM")>>20)
		})
	}
	if cost := n.memory(t, "VmHWM") - base; cost > most {
		t.Errorf("the attacks have cost %d MB", cost>>20)
	}
}

func wrongUser(t *testing.T, n *node, _ *honest, _ *raw) {
	n.grows(t, 4, refused, `"connect"`, func() {
		for _, who := range [][2]string{{"alice", "guess"}, {"nobody", "nobody"}, {"alice", "ALICE"}, {"spy", "alice"}} {
			if _, code := n.enter(t, who[0], who[1], ""); code == 0 {
				t.Errorf("%q was let in", who)
			}
		}
	})
	n.grows(t, 5, refused, `"will"`, func() {
		for _, topic := range []string{"presence/alice", "node/alice/bob", "lock/crane/hook/state", "lock/crane/events", "lock/crane/view"} {
			if _, code := n.enter(t, "mallory", "mallory", r+topic); code == 0 {
				t.Errorf("a will on %s was accepted", topic)
			}
		}
	})
	// Under another's id with one's own account: the presence is not writable.
	_, err := pubsub.Join(t.Context(), "mqtt://"+n.addr, "alice", pubsub.WithCredentials("mallory", "mallory"))
	if !errors.Is(err, pubsub.ErrRefused) {
		t.Errorf("mallory as participant alice: %v", err)
	}
}

// recorded are publications whose topics begin so.
func recorded(spy *raw, prefix string) (all []publication) {
	for _, p := range spy.got() {
		if strings.HasPrefix(p.topic, r+prefix) {
			all = append(all, p)
		}
	}
	return all
}

func forgedSender(t *testing.T, n *node, h *honest, spy *raw) {
	mallory := n.as(t, "mallory")
	var taken []publication
	poll.Within(t, patience, "a hundred messages of alice to the root", func() bool {
		taken = recorded(spy, "node/"+root+"/alice")
		return len(taken) >= 100
	})
	taken = taken[:100]
	n.grows(t, 100, refused, `"publish"`, func() {
		for _, l := range taken {
			mallory.publish(t, l.topic, l.payload, false)
		}
	})
	n.grows(t, 100, dropped, `"sender"`, func() {
		for _, l := range taken {
			mallory.publish(t, r+"node/"+root+"/mallory", l.payload, false)
		}
	})
	before := h.counted(t, dropped, "sender")
	for _, l := range recorded(spy, "node/alice/"+root)[:20] {
		mallory.publish(t, r+"node/alice/mallory", l.payload, false)
	}
	poll.Within(t, patience, "alice to drop the root's messages from mallory", func() bool { return h.counted(t, dropped, "sender") >= before+20 })
}

func forgedState(t *testing.T, n *node, _ *honest, spy *raw) {
	lie := `{"topic":"crane","resource":"hook","holder":"mallory","fence":"1","epoch":"1.x","root":"mallory"}`
	esp := n.as(t, "esp")
	n.grows(t, 3, refused, `"publish"`, func() {
		for _, topic := range []string{"hook/state", "events", "view"} {
			esp.publish(t, r+"lock/crane/"+topic, []byte(lie), true)
		}
	})
	mallory := n.as(t, "mallory") // might become the root one day, so the broker lets it
	far := fmt.Sprintf(`{"event":"granted","topic":"crane","resource":"hook","participant":"mallory","priority":1,"fence":"%d"}`, uint64(1)<<52)
	n.grows(t, 3, dropped, `"foreign"`, func() {
		mallory.publish(t, r+"lock/crane/hook/state", []byte(lie), true)
		mallory.publish(t, r+"lock/crane/view", []byte(lie), true)
		mallory.publish(t, r+"lock/crane/events", []byte(far), false)
	})
	poll.Within(t, patience, "the truth to stand there again", func() bool {
		for _, topic := range []string{"lock/crane/hook/state", "lock/crane/view"} {
			all := recorded(spy, topic)
			var said struct{ Root string }
			if err := json.Unmarshal(all[len(all)-1].payload, &said); err != nil || said.Root != root {
				return false
			}
		}
		return true
	})
}

// messageBody unpacks a message of pubsub, and the lock message in it.
func messageBody(t *testing.T, payload []byte) protocol.Message {
	t.Helper()
	var envelope []any
	if err := msgpack.Unmarshal(payload, &envelope); err != nil || len(envelope) < 8 {
		t.Fatalf("no envelope: %v", err)
	}
	body, _ := envelope[7].([]byte)
	var m protocol.Message
	var d protocol.Decoder
	if err := d.Decode(body, &m); err != nil {
		return protocol.Message{}
	}
	return m
}

// The wiretap plays everything again that the members and the root have written to
// each other, in their names, as nobody but an operator can.
func replayedMessages(t *testing.T, n *node, h *honest, spy *raw) {
	kinds := map[protocol.Kind]int{}
	var taken []publication
	for _, who := range []string{"alice", "bob"} {
		for _, prefix := range []string{"node/" + root + "/" + who, "node/" + who + "/" + root} {
			all := recorded(spy, prefix)
			taken = append(taken, all[:min(len(all), 500)]...)
		}
	}
	for _, l := range taken {
		kinds[messageBody(t, l.payload).Kind]++
	}
	if kinds[protocol.KindRequest] == 0 || kinds[protocol.KindReply] == 0 || kinds[protocol.KindRelease] == 0 {
		t.Fatalf("recorded only %v", kinds)
	}
	atMembers := h.counted(t, replayed, "stale")
	n.grows(t, float64(kinds[protocol.KindRequest]+kinds[protocol.KindRelease]), replayed, `"stale"`, func() {
		for _, l := range taken {
			spy.publish(t, l.topic, l.payload, false)
		}
	})
	poll.Within(t, patience, "the members to refuse what was played again", func() bool {
		return h.counted(t, replayed, "stale") >= atMembers+float64(kinds[protocol.KindReply])
	})
}

func replayedSamples(t *testing.T, n *node, h *honest, spy *raw) {
	q := pubsub.WithQoS(pubsub.QoS{Reliability: pubsub.Reliable, History: pubsub.KeepAll})
	from, err := pubsub.NewTopic[int](h.alice, "load")
	if err != nil {
		t.Fatal(err)
	}
	to, err := pubsub.NewTopic[int](h.bob, "load")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := pubsub.NewReader(t.Context(), to, q)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	writer, err := pubsub.NewWriter(t.Context(), from, q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close(context.Background()) }()
	if err := writer.WaitMatched(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := reader.WaitMatched(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := writer.Write(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.WaitAcked(t.Context()); err != nil {
		t.Fatal(err)
	}
	var samples []publication
	poll.Within(t, patience, "the recording", func() bool { samples = recorded(spy, "data/"); return len(samples) >= 20 })
	before := h.counted(t, messages, "duplicate")
	for _, s := range samples {
		spy.publish(t, s.topic, s.payload, false)
	}
	poll.Within(t, patience, "bob to drop what was played again", func() bool { return h.counted(t, messages, "duplicate") >= before+20 })
	mallory := n.as(t, "mallory")
	n.grows(t, 20, refused, `"publish"`, func() {
		for _, s := range samples {
			mallory.publish(t, s.topic, s.payload, false)
		}
	})
	before = h.counted(t, messages, "unmatched")
	for _, s := range samples { // in its own name: nobody has announced that writer
		mallory.publish(t, strings.Replace(s.topic, "/alice/", "/mallory/", 1), s.payload, false)
	}
	poll.Within(t, patience, "bob to drop samples of no writer", func() bool { return h.counted(t, messages, "unmatched") >= before+20 })
	var got []int
	for _, s := range reader.Take(1000) {
		got = append(got, s.Data)
	}
	if len(got) != 20 || !slices.IsSorted(got) {
		t.Errorf("bob has read %v", got)
	}
}

func lengths(t *testing.T, n *node, _ *honest, _ *raw) {
	before := n.memory(t, "VmHWM")
	n.grows(t, 100, cut, `"oversized"`, func() {
		for range 50 {
			c := n.stranger(t)
			c.send(t, []byte("\x10\x80\x80\x80\x31")) // 100 MB, of a stranger
			c.gone(t)
			c = n.as(t, "mallory")
			c.send(t, []byte("\x30\x80\x80\x80\x31")) // and of a member
			c.gone(t)
		}
	})
	n.grows(t, 10, cut, `"protocol"`, func() {
		for range 5 {
			for _, opening := range []string{"GET / HTTP/1.1\r\n\r\n", "\x10\xff\xff\xff\xff\x7f"} {
				c := n.stranger(t)
				c.send(t, []byte(opening))
				c.gone(t)
			}
		}
	})
	mallory := n.as(t, "mallory")
	big := binary.BigEndian.AppendUint32(nil, 100<<20)
	deep := bytes.Repeat([]byte{0x91}, 900_000)
	lies := [][]byte{
		append([]byte{0xdd}, big...),                               // an array of 100 million
		append([]byte{0x98, 1, 1, 0, 0, 0, 0, 0x80, 0xc6}, big...), // a body of 100 MB
		append([]byte{0x98, 1, 1, 0, 0, 0, 0, 0xdf}, big...),       // options
		deep,
	}
	n.grows(t, 10*float64(len(lies)), messages, `"malformed"`, func() {
		for range 10 {
			for _, l := range lies {
				mallory.publish(t, r+"node/"+root+"/mallory", l, false)
			}
		}
	})
	bodies := [][]byte{append([]byte{0xdd}, big...), append([]byte{0x95, 1, 1, 0xc6}, big...), append([]byte{0x95, 1, 1, 0xdb}, big...), deep}
	n.grows(t, 10*float64(len(bodies)), dropped, `"malformed"`, func() {
		for range 10 {
			for _, b := range bodies {
				message, err := msgpack.Marshal([]any{1, 1, uint64(1), 0, 0, 0, map[string]any{"c": []byte("lock/crane")}, b})
				if err != nil {
					t.Fatal(err)
				}
				mallory.publish(t, r+"node/"+root+"/mallory", message, false)
				mallory.publish(t, r+"lock/crane/join/mallory", b, false)
			}
		}
	})
	brackets := bytes.Repeat([]byte("["), 900_000)
	strings := append(append([]byte(`{"event":"`), bytes.Repeat([]byte("x"), 900_000)...), `","fence":"1"}`...)
	n.grows(t, 20, dropped, `"foreign"`, func() {
		for range 10 {
			for _, payload := range [][]byte{brackets, strings} {
				for _, topic := range []string{"lock/crane/events", "lock/crane/hook/state", "lock/crane/view", "presence/mallory", "ep/t/mallory/w1"} {
					mallory.publish(t, r+topic, payload, true)
				}
			}
		}
	})
	if grown := n.memory(t, "VmHWM") - before; grown > 256<<20 {
		t.Errorf("lengths have cost %d MB", grown>>20)
	}
}

// One account floods from four connections: the node's inbox, the topic on which a
// root is looked for, and as many retained topics as it can.
func flood(t *testing.T, n *node, _ *honest, _ *raw) {
	load := bytes.Repeat([]byte("x"), 1000)
	const each = 20_000
	for topic, metric := range map[string]string{"node/" + root + "/mallory": messages, "lock/crane/join/mallory": dropped} {
		full := n.sum(t, "padme_broker_messages_dropped_total") // at QoS 0 the broker drops for who is too slow
		before := n.sum(t, metric, `"malformed"`)
		for range 2 {
			c := n.as(t, "mallory")
			for range each {
				c.publish(t, r+topic, load, false)
			}
		}
		poll.Within(t, patience, "the flood to be counted", func() bool {
			return n.sum(t, metric, `"malformed"`)-before+n.sum(t, "padme_broker_messages_dropped_total")-full >= 2*each
		})
		t.Logf("%s: %s{malformed} grew by %v", topic, metric, n.sum(t, metric, `"malformed"`)-before)
	}
	n.grows(t, 100, refused, `"retain"`, func() {
		c := n.as(t, "mallory")
		big := bytes.Repeat([]byte("x"), 100_000)
		for i := range 1000 { // 100 MB
			c.publish(t, fmt.Sprintf("%sdata/p/t/k%d/mallory/w", r, i), big, true)
		}
	})
	t.Logf("with its quota full, %d MB at most", n.memory(t, "VmHWM")>>20)
	c := n.as(t, "mallory")
	for i := range 1000 { // or each of the connections to come that subscribe to all would be sent it
		c.publish(t, fmt.Sprintf("%sdata/p/t/k%d/mallory/w", r, i), nil, true)
	}
}

func subscribeAll(t *testing.T, n *node, h *honest, _ *raw) {
	mallory := n.as(t, "mallory")
	mallory.listen(t, "#")
	h.goOn(t)
	if len(mallory.got()) == 0 {
		t.Error("not even the states came")
	}
	for _, p := range mallory.got() {
		if strings.HasPrefix(p.topic, r+"node/") && !strings.HasPrefix(p.topic, r+"node/mallory/") || strings.Contains(p.topic, "/client/") {
			t.Fatalf("mallory has read %s", p.topic)
		}
	}
	n.grows(t, 2, refused, `"subscribe"`, func() {
		for _, filter := range []string{"node/alice/+", "lock/+/client/esp/#"} {
			c := n.as(t, "mallory")
			c.listen(t, r+filter)
		}
	})
	// And one that never reads what it is sent: it holds nobody up.
	for range 5 {
		c := n.as(t, "mallory")
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096)
		}
		c.send(t, packet(0x82, []byte{0, 1}, str("#"), []byte{1}))
	}
	h.goOn(t)
}

func silentConnections(t *testing.T, n *node, h *honest, _ *raw) {
	const thousands = 3000
	before := n.memory(t, "VmRSS")
	n.grows(t, thousands, cut, `"timeout"`, func() {
		var all []net.Conn
		defer func() {
			for _, c := range all {
				_ = c.Close()
			}
		}()
		for range thousands {
			c, err := net.DialTimeout("tcp", n.addr, patience)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		h.goOn(t)
		if grown := n.memory(t, "VmRSS") - before; grown > 200<<20 {
			t.Errorf("%d silent connections cost %d MB", thousands, grown>>20)
		}
		for _, c := range all {
			_ = c.SetReadDeadline(time.Now().Add(patience))
			_, _ = c.Read(make([]byte, 1)) // until the broker has closed it
		}
	})
}
