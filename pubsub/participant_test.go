package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/pubsub/internal/discovery"
	"padme/tests/poll"
	"padme/tests/proxy"
)

// Who gives up, or had no time to begin with, is not told to start a broker.
func TestJoinSaysThatItsContextEnded(t *testing.T) {
	why := errors.New("had enough")
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	late, cancelLate := context.WithTimeout(t.Context(), -time.Second)
	defer cancelLate()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	connecting, giveUp := context.WithCancelCause(t.Context())
	go func() {
		for range 2 {
			if _, err := silent.Accept(); err != nil {
				t.Error(err)
			}
		}
		giveUp(why)
	}()
	for _, c := range []struct {
		name string
		ctx  context.Context
		url  string
		is   []error
	}{
		{"canceled", canceled, "127.0.0.1:1", []error{context.Canceled, why}},
		{"no time", late, "127.0.0.1:1", []error{context.DeadlineExceeded}},
		{"while connecting", connecting, silent.Addr().String(), []error{context.Canceled, why}},
	} {
		var wg sync.WaitGroup
		judge := func(err error) {
			for _, want := range c.is {
				if !errors.Is(err, want) || errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "start a broker") {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		}
		wg.Go(func() { _, err := Join(c.ctx, c.url, "a"); judge(err) })
		wg.Go(func() { _, err := ConnectPlain(c.ctx, c.url, "a"); judge(err) })
		wg.Wait()
	}
}

func TestJoinSaysWhatIsWrong(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		url, id string
		opt     Option
		want    error
		says    string
	}{
		{"mqtt://" + closed.Addr().String(), "a", WithDomain("d"), ErrUnreachable, "start a broker"},
		{silent.Addr().String(), "a", WithDomain("d"), ErrUnreachable, "handshake"},
		{"http://x", "a", WithDomain("d"), ErrInvalid, "scheme"},
		{"mqtt://u:p@x", "a", WithDomain("d"), ErrInvalid, "WithCredentials"},
		{"mqtt://", "a", WithDomain("d"), ErrInvalid, "no host"},
		{"x:1883", "", WithDomain("d"), ErrInvalid, "empty"},
		{"x:1883", strings.Repeat("x", 129), WithDomain("d"), ErrInvalid, "129 bytes"},
		{"x:1883", "a\x00", WithDomain("d"), ErrInvalid, "U+0000"},
		{"x:1883", "a", WithDomain(""), ErrInvalid, "empty"},
		{"x:1883", "a", WithKeepAlive(time.Second), ErrInvalid, "2s"},
		{"x:1883", "a", WithUserData(map[string]string{"k": strings.Repeat("x", 9000)}), ErrInvalid, "9008"},
		{"x:1883", "a", WithCredentials("", "x"), ErrInvalid, "anonymous"},
		{"x:1883", "a", WithDialer(nil), ErrInvalid, "nil"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		p, err := Join(ctx, c.url, c.id, c.opt)
		cancel()
		if p != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Join(%q, %.20q) = %v, want %v saying %q", c.url, c.id, err, c.want, c.says)
		}
	}
}

func TestIncarnationsOfAnIDGrow(t *testing.T) {
	url := startBroker(t)
	a := join(t, url, "a")
	closeNow(t, a)
	b := join(t, url, "a")
	if b.Incarnation() <= a.Incarnation() {
		t.Errorf("incarnation %d after %d", b.Incarnation(), a.Incarnation())
	}
}

func TestASecondProcessWithTheSameIDIsRefused(t *testing.T) {
	url := startBroker(t)
	first := join(t, url, "a")
	began := time.Now()
	if _, err := Join(testContext(t), url, "a", at(t)...); !errors.Is(err, ErrDuplicateID) || !strings.Contains(err.Error(), `"a"`) {
		t.Fatalf("second Join: %v", err)
	}
	if d := time.Since(began); d > discovery.ClaimWait {
		t.Errorf("a live owner was noticed after %v", d)
	}
	if !first.Connected() || first.Err() != nil {
		t.Errorf("the first one was disturbed: %v", first.Err())
	}
	join(t, url, "a", WithDomain("other"))
}

func TestTakeoverDoesNotWaitForAnAnswer(t *testing.T) {
	url := startBroker(t)
	wall := proxy.Start(t, url)
	first := join(t, wall.URL(), "a")
	wall.Freeze()
	began := time.Now()
	second := join(t, url, "a", WithTakeover())
	if d := time.Since(began); d > discovery.ClaimWait/2 {
		t.Errorf("it took %v", d)
	}
	wall.Release()
	wall.Break() // it finds out when it connects again
	receive(t, first.Done(), "end of the one before")
	if !errors.Is(first.Err(), ErrDuplicateID) || second.Err() != nil {
		t.Errorf("the first ended with %v, the second with %v", first.Err(), second.Err())
	}
}

func TestTheIDOfASilentProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	url := startBroker(t)
	wall := proxy.Start(t, url)
	first := join(t, wall.URL(), "a")
	wall.Freeze()
	second := join(t, url, "a")
	wall.Release()
	wall.Break() // the broker publishes the will of the first one
	receive(t, first.Done(), "end of the one that was silent")
	if !errors.Is(first.Err(), ErrDuplicateID) {
		t.Errorf("the first ended with %v", first.Err())
	}
	watcher := join(t, url, "w")
	poll.Until(t, "the second one is alive again, whatever the will says", func() bool {
		pr, ok := presenceOf(t, watcher, "a")
		return ok && pr.Alive && pr.Incarnation == second.Incarnation()
	})
}

func TestOfTwoThatJoinAtOnceOneStays(t *testing.T) {
	t.Parallel()
	url := startBroker(t)
	for range 10 {
		var ps [2]*Participant
		var errs [2]error
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() { ps[i], errs[i] = Join(testContext(t), url, "twin", at(t)...) })
		}
		wg.Wait()
		alive := func() (n int) {
			for i, p := range ps {
				switch {
				case errs[i] != nil:
					if !errors.Is(errs[i], ErrDuplicateID) {
						t.Fatal(errs[i])
					}
				case p.Err() == nil:
					n++
				}
			}
			return n
		}
		poll.Until(t, "one of two ends", func() bool { return alive() < 2 })
		time.Sleep(20 * time.Millisecond)
		if n := alive(); n != 1 {
			t.Fatalf("%d of two are left: %v", n, errs)
		}
		for _, p := range ps {
			if p != nil {
				closeNow(t, p)
			}
		}
	}
}

func TestReconnectionRestoresEverything(t *testing.T) {
	url := startBroker(t)
	wall := proxy.Start(t, url)
	a, b := join(t, wall.URL(), "a"), join(t, url, "b")
	ups := make(chan bool, 10)
	a.Notify(func(up bool) { ups <- up })
	messages, raws := make(chan string, 10), make(chan string, 10)
	if _, err := a.Inbox("c", func(l Message) { messages <- string(l.Payload) }); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SubscribeRaw(testContext(t), Main, []string{"x", "+"}, func(m RawMessage) { raws <- m.Levels[1] }); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		wall.Cut()
		if receive(t, ups, "loss") {
			t.Fatal("up before down")
		}
		if a.Connected() {
			t.Error("still connected")
		}
		if err := a.Send("b", "c", nil); !errors.Is(err, ErrOffline) {
			t.Errorf("Send while offline: %v", err)
		}
		wall.Restore()
		if !receive(t, ups, "reconnection") {
			t.Fatal("down twice")
		}
		if err := b.Send("a", "c", []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if err := b.PublishRaw(Main, []string{"x", "y"}, nil, false); err != nil {
			t.Fatal(err)
		}
		receive(t, messages, "message after reconnection")
		receive(t, raws, "raw message after reconnection")
		poll.Until(t, "a is alive again for others", func() bool {
			pr, ok := presenceOf(t, b, "a")
			return ok && pr.Alive && pr.Incarnation == a.Incarnation()
		})
	}
}

func TestAFrozenConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	wall := proxy.Start(t, startBroker(t))
	a := join(t, wall.URL(), "a", WithKeepAlive(2*time.Second))
	down := make(chan bool, 10)
	a.Notify(func(up bool) { down <- up })
	wall.Freeze()
	for range 100 { // more than the socket takes
		if err := a.Send("x", "c", make([]byte, 150_000)); err != nil {
			t.Fatal(err)
		}
	}
	if receive(t, down, "loss") {
		t.Error("up before down")
	}
	wall.Release()
	receive(t, down, "reconnection")
}

// The most that a participant may say of itself is in its last will, and thus in what a
// broker is sent first by a stranger.
func TestAParticipantMaySayAsMuchAsItMay(t *testing.T) {
	url := startBroker(t)
	most := map[string]string{strings.Repeat("k", 100): strings.Repeat("<", (discovery.MaxUserData-107)/6)} // each as \u003c
	join(t, url, strings.Repeat("<", 128), WithUserData(most))
}

func TestClosePublishesDeathAndSendsWhatWaits(t *testing.T) {
	t.Parallel()
	url := startBroker(t)
	a, b := join(t, url, "a", WithUserData(map[string]string{"k": "v"})), join(t, url, "b")
	got := make(chan struct{}, 1000)
	if _, err := b.Inbox("c", func(Message) { got <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a is alive", func() bool {
		pr, ok := presenceOf(t, b, "a")
		return ok && pr.Alive && pr.UserData["k"] == "v"
	})
	last := make(chan []byte, 10)
	if _, err := b.SubscribeRaw(testContext(t), Main, []string{"presence", "a"}, func(m RawMessage) {
		last <- append([]byte{}, m.Payload...)
	}); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := a.Send("b", "c", nil); err != nil {
			t.Fatal(err)
		}
	}
	closeNow(t, a)
	closeNow(t, a)
	if !errors.Is(a.Err(), ErrClosed) {
		t.Error(a.Err())
	}
	for range 1000 {
		receive(t, got, "a message sent before Close")
	}
	birth := receive(t, last, "birth")
	next := func(before []byte, what string) []byte { // NATS delivers once for each of two subscriptions
		for {
			if payload := receive(t, last, what); !bytes.Equal(payload, before) {
				return payload
			}
		}
	}
	death := next(birth, "death")
	cleared := next(death, "clearing")
	if pr, err := discovery.ParsePresence("a", birth); err != nil || !pr.Alive {
		t.Errorf("birth is %s", birth)
	}
	if pr, err := discovery.ParsePresence("a", death); err != nil || pr.Alive || pr.Incarnation != a.Incarnation() {
		t.Errorf("death is %s", death)
	}
	if len(cleared) > 0 {
		t.Errorf("after its death, %s is retained", cleared)
	}
	poll.Until(t, "nothing of a is left", func() bool {
		_, ok := presenceOf(t, b, "a")
		return !ok
	})
}

func TestWhoeverSeesItsOwnDeathIsBornAgain(t *testing.T) {
	url := startBroker(t)
	join(t, url, "a")
	b := join(t, url, "b")
	var birth Presence
	for pr := range b.Peers(testContext(t)) {
		if birth = pr; pr.ID == "a" {
			break
		}
	}
	forged := fmt.Appendf(nil, `{"alive":false,"incarnation":"%d","epoch":"%d"}`, birth.Incarnation, birth.Epoch)
	seen := make(chan Presence, 10)
	if _, err := b.SubscribeRaw(testContext(t), Main, []string{"presence", "a"}, func(m RawMessage) {
		pr, _ := discovery.ParsePresence("a", m.Payload)
		seen <- Presence(pr)
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.PublishRaw(Main, []string{"presence", "a"}, forged, true); err != nil {
		t.Fatal(err)
	}
	for _, alive := range []bool{true, false, true} { // the first may come twice, retained and as it is published
		for receive(t, seen, "presence").Alive != alive {
		}
	}
}

func TestPeersYieldsTheCurrentOnesThenChanges(t *testing.T) {
	url := startBroker(t)
	a, b := join(t, url, "a"), join(t, url, "b")
	ctx, cancel := context.WithCancel(testContext(t))
	events := make(chan Presence, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		for pr, err := range a.Peers(ctx) {
			if err != nil {
				t.Error(err)
			}
			events <- pr
		}
	})
	await := func(id string, alive bool) {
		for {
			if pr := receive(t, events, "presence of "+id); pr.ID == id && pr.Alive == alive {
				return
			}
		}
	}
	await("b", true)
	c := join(t, url, "c")
	await("c", true)
	closeNow(t, b)
	await("b", false)
	closeNow(t, c)
	await("c", false)
	cancel()
	wg.Wait()
}

func TestCountersAreMetrics(t *testing.T) {
	url := startBroker(t)
	reg := prometheus.NewRegistry()
	a := join(t, url, "a", WithMetrics(reg))
	join(t, url, "b", WithMetrics(reg))
	if _, err := Join(testContext(t), url, "a", append(at(t), WithMetrics(reg))...); !errors.Is(err, ErrInvalid) {
		t.Errorf("same labels twice: %v", err)
	}
	families, err := reg.Gather()
	if err != nil || len(families) == 0 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	closeNow(t, a)
	join(t, url, "a", WithMetrics(reg))
}

// presenceOf returns the first presence of id that p is told.
func presenceOf(t testing.TB, p *Participant, id string) (Presence, bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for pr, err := range p.Peers(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if pr.ID == id {
			return pr, true
		}
	}
	return Presence{}, false
}
