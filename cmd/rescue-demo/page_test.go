package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/broker"
	shared "padme/cmd/internal/web"
	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/control"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/telemetry"
	"padme/cmd/rescue-demo/internal/web"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/capture"
	"padme/tests/extent"
	"padme/tests/poll"

	"github.com/gorilla/websocket"
)

// shown is the program in this process, with a page, and a client that looks and
// commands as the page does.
type shown struct {
	t      *testing.T
	url    string // of the page
	broker string
	config shared.Config
	key    control.Key
	p      *pubsub.Participant
	end    func() (code int, rest string) // interrupts it

	said     capture.Text
	mu       sync.Mutex
	messages map[string][]byte // the last on each topic, below the root
	answers  chan control.Answer
	number   int
}

func perform(t *testing.T, args ...string) *shown {
	t.Helper()
	extent.NotShort(t, "real processes")
	s := &shown{t: t, messages: map[string][]byte{}, answers: make(chan control.Answer, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		var errs bytes.Buffer
		code <- execute(ctx, append([]string{"--duration", "1h", "--web", "127.0.0.1:0"}, args...), strings.NewReader(""), in, io.MultiWriter(&errs, in))
		in.Close()
	}()
	lines := bufio.NewReader(out)
	line := func(prefix string) string {
		text, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(text, prefix) {
			t.Fatalf("%q instead of a line that begins with %q: %v", text, prefix, err)
		}
		return strings.TrimSpace(strings.TrimPrefix(text, prefix))
	}
	s.broker, _, _ = strings.Cut(line("broker at "), ";")
	s.url = strings.Fields(line("page at "))[0]
	all := make(chan struct{})
	go func() {
		defer close(all)
		_, _ = io.Copy(&s.said, lines)
	}()
	s.end = sync.OnceValues(func() (int, string) {
		cancel()
		<-all
		return <-code, s.said.String()
	})
	t.Cleanup(func() { s.end() })
	s.join()
	return s
}

// patienceInTests bounds every wait for what the page shows.
const patienceInTests = 40 * time.Second

func (s *shown) join() {
	s.t.Helper()
	s.config = s.fetch()
	text, err := json.Marshal(s.config.Page)
	if err != nil {
		s.t.Fatal(err)
	}
	var page web.Config
	if err := json.Unmarshal(text, &page); err != nil {
		s.t.Fatal(err)
	}
	if s.key, err = hex.DecodeString(page.Key); err != nil {
		s.t.Fatal(err)
	}
	if s.p, err = pubsub.Join(s.t.Context(), s.broker, "looker", pubsub.WithDomain(s.config.Domain)); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.p.Close(context.Background()) })
	for _, levels := range [][]string{{"show", "+"}, {"presence", "+"}, {"lock", scenario.LockTopic, "view"}, {"control", "answer"}} {
		if _, err := s.p.SubscribeRaw(s.t.Context(), pubsub.Main, levels, s.heard); err != nil {
			s.t.Fatal(err)
		}
	}
	poll.Within(s.t, patienceInTests, "the run to be told of", func() bool { return last[telemetry.Scene](s, "show/scene").Robots > 0 })
}

func (s *shown) fetch() (c shared.Config) {
	s.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(s.url + "config.json")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *shown) heard(m pubsub.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[strings.Join(m.Levels, "/")] = bytes.Clone(m.Payload)
	var a control.Answer
	if m.Levels[0] == "control" && json.Unmarshal(m.Payload, &a) == nil {
		s.answers <- a
	}
}

// last returns the last message on a topic, empty before the first.
func last[T any](s *shown, topic string) (v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := s.messages[topic]; text != nil {
		if err := json.Unmarshal(text, &v); err != nil {
			s.t.Errorf("%s: %v in %s", topic, err, text)
		}
	}
	return v
}

// The page's connection to a broker without WebSocket must outlast the start of the
// run, which has a bound of its own.
func TestBridgeOutlastsTheStart(t *testing.T) {
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(context.Background()) })
	cfg := scenario.Default()
	cfg.Broker = b.URL()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	start, over := context.WithCancel(t.Context())
	c, err := center.Start(start, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	pg, err := openPage(start, pageConfig{Addr: "127.0.0.1:0"}, c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pg.p.Close(context.Background())
		pg.server.Close()
	})
	over()
	url := strings.TrimSuffix(pg.server.URL(), "/")
	ws, response, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(url, "http")+"/mqtt", http.Header{"Origin": {url}})
	if response != nil {
		defer response.Body.Close()
	}
	if err != nil {
		t.Fatalf("no page can connect once the run has started: %v", err)
	}
	_ = ws.Close()
}

func (s *shown) robot(number int) telemetry.Robot {
	all := last[telemetry.Robots](s, "show/robots").Robots
	if len(all) < number {
		return telemetry.Robot{}
	}
	return all[number-1]
}

func (s *shown) alive(id string) bool {
	return last[struct {
		Alive bool `json:"alive"`
	}](s, "presence/"+id).Alive
}

func (s *shown) view() qosmutex.View {
	return last[qosmutex.View](s, "lock/"+scenario.LockTopic+"/view")
}

// ask sends a command and returns the error of its answer, or "".
func (s *shown) ask(c control.Command) string {
	s.t.Helper()
	s.number++
	c.ID, c.At = fmt.Sprintf("command-%d", s.number), time.Now().UnixMilli()
	if err := s.p.PublishRaw(pubsub.Side, control.RequestTopic, s.key.Seal(c), false); err != nil {
		s.t.Fatal(err)
	}
	for {
		select {
		case a := <-s.answers:
			if a.ID == c.ID {
				return a.Error
			}
		case <-time.After(40 * time.Second):
			s.t.Fatalf("no answer to %+v", c)
		}
	}
}

func (s *shown) do(c control.Command) {
	s.t.Helper()
	if refused := s.ask(c); refused != "" {
		s.t.Fatalf("%s %s: %s", c.Do, c.Robot, refused)
	}
}

func (s *shown) refused(c control.Command, want string) {
	s.t.Helper()
	if got := s.ask(c); !strings.Contains(got, want) {
		s.t.Errorf("%s %s: %q, want %q", c.Do, c.Robot, got, want)
	}
}

// killed has somebody killed, once the command is not refused with advice to wait.
func (s *shown) killed(c control.Command) {
	s.t.Helper()
	poll.Within(s.t, patienceInTests, fmt.Sprintf("%s %s to be done", c.Do, c.Robot), func() bool {
		refused := s.ask(c)
		if refused != "" && !strings.Contains(refused, "wait") {
			s.t.Fatalf("%s %s: %s", c.Do, c.Robot, refused)
		}
		return refused == ""
	})
}

// finish ends the run, which must have gone well.
func (s *shown) finish() {
	s.t.Helper()
	code, rest := s.end()
	if code != exitInterrupted || !strings.Contains(rest, "overlaps: 0 ") || strings.Contains(rest, "failed") {
		s.t.Errorf("exit code %d:\n%s", code, rest)
	}
}

// Every command has the effect that it is named for, for anybody to see.
func TestCommandsHaveTheirEffects(t *testing.T) {
	extent.Long(t, "two whole runs")
	extent.NotShort(t, "real time")
	t.Parallel()
	for name, args := range map[string][]string{"inside": nil, "processes": {"--processes"}} {
		t.Run(name, func(t *testing.T) {
			// In a slow world nobody walks into a shadow by itself for a while.
			s := perform(t, append(args, "--robots", "5", "--speed", "0.1", "--transmission", "100ms")...)
			poll.Within(s.t, patienceInTests, "robots to be there", func() bool { return s.alive("robot-5") && s.robot(5).Name != "" })
			pauseAndCut(s)
			killAndStart(s)
			dropAndSwitch(s)
			killRoot(s)
			s.finish()
		})
	}
}

func pauseAndCut(s *shown) {
	s.do(control.Command{Do: control.Pause, Robot: "robot-2"})
	s.refused(control.Command{Do: control.Pause, Robot: "robot-2"}, "paused already")
	poll.Within(s.t, patienceInTests, "robot-2 to be paused", func() bool { return s.robot(2).Paused })
	there, at := s.robot(2), last[telemetry.Robots](s, "show/robots").At
	poll.Within(s.t, patienceInTests, "a second", func() bool { return last[telemetry.Robots](s, "show/robots").At > at+1000 })
	if now := s.robot(2); now.X != there.X || now.Y != there.Y {
		s.t.Errorf("it moves from %v to %v", there, now)
	}
	s.do(control.Command{Do: control.Resume, Robot: "robot-2"})
	poll.Within(s.t, patienceInTests, "robot-2 to go on", func() bool { return s.robot(2).X != there.X || s.robot(2).Y != there.Y })

	if r := s.robot(3); r.Shadow || !s.alive("robot-3") {
		s.t.Fatalf("it is cut off already: %+v", r)
	}
	s.do(control.Command{Do: control.Cut, Robot: "robot-3"})
	poll.Within(s.t, patienceInTests, "the broker to lose robot-3", func() bool { return s.robot(3).Cut && !s.alive("robot-3") })
	s.do(control.Command{Do: control.Mend, Robot: "robot-3"})
	poll.Within(s.t, patienceInTests, "robot-3 to be back", func() bool { return s.alive("robot-3") })
}

func killAndStart(s *shown) {
	s.refused(control.Command{Do: control.Start, Robot: "robot-4"}, "lives")
	s.killed(control.Command{Do: control.Kill, Robot: "robot-4"})
	s.refused(control.Command{Do: control.Kill, Robot: "robot-4"}, "dead already")
	poll.Within(s.t, patienceInTests, "robot-4 to be dead", func() bool { return s.robot(4).Dead && !s.alive("robot-4") })
	s.do(control.Command{Do: control.Start, Robot: "robot-4"})
	poll.Within(s.t, patienceInTests, "robot-4 to live again", func() bool { return s.robot(4).Life == 2 && s.alive("robot-4") })
}

func dropAndSwitch(s *shown) {
	n := len(last[[]telemetry.Survivor](s, "show/survivors"))
	s.do(control.Command{Do: control.Drop, X: 17, Y: 23})
	poll.Within(s.t, patienceInTests, "one more survivor", func() bool {
		all := last[[]telemetry.Survivor](s, "show/survivors")
		return len(all) == n+1 && all[n].X == 17 && all[n].Y == 23
	})
	// Two changes from one look do not undo each other, and one from an old look is refused.
	s.do(control.Command{Do: control.Models, Model: "priority", From: "level", To: "fair"})
	s.do(control.Command{Do: control.Models, Model: "release", From: "forward", To: "use"})
	poll.Within(s.t, patienceInTests, "other models", func() bool { return s.view().Models == "fair-forward-forward-use" })
	s.refused(control.Command{Do: control.Models, Model: "priority", From: "level", To: "fair"}, "the priority model is fair by now, not level")
}

func killRoot(s *shown) {
	s.killed(control.Command{Do: control.KillRoot})
	poll.Within(s.t, patienceInTests, "another root", func() bool { return strings.HasPrefix(s.view().Root, "robot-") })
	poll.Within(s.t, patienceInTests, "the center to be back", func() bool { return s.alive(scenario.Center) })
	entries := last[telemetry.Figures](s, "show/figures").Entries
	poll.Within(s.t, patienceInTests, "the run to go on", func() bool { return last[telemetry.Figures](s, "show/figures").Entries > entries+5 })
	// The new root is a robot, which can be killed as one.
	root := s.view().Root
	s.killed(control.Command{Do: control.KillRoot})
	poll.Within(s.t, patienceInTests, "a third root", func() bool { return s.view().Root != root })
}
