package broker_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"padme/broker"
	"padme/tests/poll"
)

// victim is a broker in a process of its own.
type victim struct {
	url string
	cmd *exec.Cmd
}

func startVictim(t *testing.T, dir string) *victim {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PADME_BROKER_VICTIM="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v := &victim{cmd: cmd}
	t.Cleanup(v.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if v.url = strings.TrimSpace(line); err != nil || !strings.HasPrefix(v.url, "mqtt://") {
		t.Fatalf("no broker: %q, %v", line, err)
	}
	return v
}

// kill is kill -9.
func (v *victim) kill() {
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait()
}

func numbered(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%04d", prefix, i))
	}
	return all
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	const retained, queued = 100, 3000
	dir := t.TempDir()
	v := startVictim(t, dir)

	sleeper := connect(t, at(v.url), session("sleeper"))
	sleeper.subscribe("queue/#", 1)
	sleeper.Disconnect(50)
	ghost := connect(t, at(v.url)) // its clean session must not come back
	ghost.subscribe("queue/#", 1)

	pub := connect(t, at(v.url))
	for i, payload := range numbered("r", retained) {
		pub.publish(fmt.Sprint("kept/", i), payload, 1, true)
	}
	pub.publish("kept/cleared", "x", 1, true)
	pub.publish("kept/cleared", "", 1, true)
	var tokens []paho.Token
	for _, payload := range numbered("q", queued) {
		tokens = append(tokens, pub.Publish("queue/a", 1, false, payload))
	}
	for _, token := range tokens {
		if !token.WaitTimeout(patience) || token.Error() != nil {
			t.Fatalf("not acknowledged: %v", token.Error())
		}
	}
	v.kill()

	v = startVictim(t, dir)
	reader := connect(t, at(v.url))
	reader.subscribe("kept/#", 1)
	got := reader.receive(retained)
	slices.Sort(got)
	if !slices.Equal(got, numbered("r", retained)) {
		t.Errorf("retained: %d messages", len(got))
	}
	back := connect(t, at(v.url), session("sleeper"))
	if got := back.receive(queued); !slices.Equal(got, numbered("q", queued)) {
		t.Errorf("queued: %d messages, in order: %v", len(got), slices.IsSorted(got))
	}

	// And everything works as it should, on the subscription that was kept.
	pub = connect(t, at(v.url))
	pub.publish("queue/b", "next", 1, false)
	if got := back.receive(queued + 1); got[queued] != "next" {
		t.Errorf("after the restart: %q", got[queued])
	}
	back.subscribe("more", 1)
	back.publish("more", "own", 1, false)
	back.receive(queued + 2)
	if n := len(reader.payloads()); n != retained {
		t.Errorf("the reader has received %d messages", n)
	}

	// Acknowledged is forgotten: nothing comes a second time after another kill.
	time.Sleep(100 * time.Millisecond) // paho acknowledges after it has delivered
	v.kill()
	v = startVictim(t, dir)
	back = connect(t, at(v.url), session("sleeper"))
	connect(t, at(v.url)).publish("queue/c", "last", 1, false)
	if got := back.receive(1); got[0] != "last" { // after all that was queued
		t.Errorf("after the second restart: %d messages, %q first", len(got), got[0])
	}
}

// The broker is killed while clients publish: whatever was acknowledged by then
// is there.
func TestKillInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	v := startVictim(t, dir)
	sleeper := connect(t, at(v.url), session("sleeper"))
	sleeper.subscribe("q", 1)
	sleeper.Disconnect(50)

	pub := connect(t, at(v.url))
	acked := make(chan int)
	go func() {
		n := 0
		for {
			token := pub.Publish("q", 1, true, fmt.Sprintf("%06d", n))
			if !token.WaitTimeout(patience) || token.Error() != nil {
				break
			}
			n++
		}
		acked <- n
	}()
	time.Sleep(300 * time.Millisecond)
	v.kill()
	n := <-acked
	if n == 0 {
		t.Fatal("nothing was acknowledged")
	}

	v = startVictim(t, dir)
	back := connect(t, at(v.url), session("sleeper"))
	last := fmt.Sprintf("%06d", n-1)
	poll.UntilOr(t, func() bool { return slices.Contains(back.payloads(), last) }, func() string {
		return fmt.Sprintf("%d acknowledged, %d came", n, len(back.payloads()))
	})
	got := back.payloads()
	if got[0] == got[1] { // it met the sleeper on its way out, and at least once is not once
		got = got[1:]
	}
	if !slices.IsSorted(got) || got[n-1] != last {
		t.Errorf("%d acknowledged, %d came, the last is %s", n, len(got), got[len(got)-1])
	}
	reader := connect(t, at(v.url))
	reader.subscribe("q", 1)
	if last := reader.receive(1)[0]; last < fmt.Sprintf("%06d", n-1) {
		t.Errorf("%d acknowledged, %s retained", n, last)
	}
}

func TestCleanSessionsDoNotTouchTheDisk(t *testing.T) {
	dir := t.TempDir()
	b := start(t, broker.Config{DataDir: dir})
	size := func() int64 {
		info, err := os.Stat(dir + "/broker.log")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	sub, pub := connect(t, inProcess(b)), connect(t, inProcess(b))
	sub.subscribe("a/#", 1)
	for range 100 {
		pub.publish("a/b", "x", 1, false)
		pub.publish("a/b", "x", 0, false)
	}
	sub.receive(200)
	sub.Disconnect(50)
	if after := size(); after != before {
		t.Errorf("the log has grown from %d to %d bytes", before, after)
	}
	connect(t, inProcess(b), session("s")).publish("a", "x", 1, true)
	if after := size(); after == before {
		t.Error("a session and a retained message have left no trace")
	}
}

// What was retained under another limit is there, and found.
func TestMoreThanMayBeRetainedIsLoaded(t *testing.T) {
	dir := t.TempDir()
	b, err := broker.Start(t.Context(), broker.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	pub := connect(t, inProcess(b))
	for _, topic := range []string{"r/a", "r/b", "r/c"} {
		pub.publish(topic, topic, 1, true)
	}
	stop(t, b)
	b = start(t, broker.Config{DataDir: dir, Limits: broker.Limits{Retained: 1}})
	c := connect(t, inProcess(b))
	c.subscribe("r/+", 1)
	if got := c.receive(3); len(got) != 3 {
		t.Errorf("of three came %q", got)
	}
}

func TestSessionEndsWithACleanConnect(t *testing.T) {
	dir := t.TempDir()
	cfg := broker.Config{DataDir: dir}
	b, err := broker.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, inProcess(b), session("s"))
	c.subscribe("a", 1)
	c.Disconnect(50)
	connect(t, inProcess(b)).publish("a", "lost on purpose", 1, false)
	c = connect(t, inProcess(b), session("s"), func(o *paho.ClientOptions) { o.SetCleanSession(true) })
	c.Disconnect(50)
	stop(t, b)

	b = start(t, cfg)
	c = connect(t, inProcess(b), session("s"))
	c.subscribe("marker", 1)
	connect(t, inProcess(b)).publish("a", "no subscription", 1, false)
	c.publish("marker", "end", 1, false)
	if got := c.receive(1); got[0] != "end" {
		t.Errorf("received %q", got)
	}
}

// mochi sorts what it sends again by whole seconds, and 16 bits of those.
func TestOfflineQueueKeepsItsOrder(t *testing.T) {
	b := start(t, broker.Config{})
	sleeper := connect(t, inProcess(b), session("s"))
	sleeper.subscribe("q/#", 1)
	pub := connect(t, inProcess(b))
	for round := range 3 { // later rounds find numbers that were given again
		sleeper.Disconnect(50)
		want := numbered(fmt.Sprint(round, "-"), 2000)
		for _, payload := range want {
			pub.Publish("q/a", 1, false, payload)
		}
		pub.publish("q/b", "end", 1, false)
		sleeper = connect(t, inProcess(b), session("s"))
		if got := sleeper.receive(len(want) + 1); !slices.Equal(got, append(want, "end")) {
			t.Fatalf("round %d: %d messages, in order: %v", round, len(got), slices.IsSorted(got[:len(want)]))
		}
		time.Sleep(50 * time.Millisecond) // for the acknowledgements
	}
}
