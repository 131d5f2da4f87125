package ring

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"padme/pubsub"
)

// partEnv has the test binary take part in a ring: its broker's URL, how many there are,
// the first one that it is and the first that it is not any more, and how long it cuts
// connections, "0s" for not at all.
const partEnv = "PADME_RING_PART"

// joining is how many of a process join at a time.
const joining = 16

// part is a process with some of the participants. It says what it has come to, and how
// much CPU time that took so far, a line each.
type part struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// launchAll starts the processes of a ring of n.
func launchAll(ctx context.Context, t *testing.T, url string, n int, cuts time.Duration) (parts []*part) {
	t.Helper()
	for i := range processes {
		parts = append(parts, launch(ctx, t, fmt.Sprintf("%s %d %d %d %s", url, n, i*n/processes, (i+1)*n/processes, cuts)))
	}
	return parts
}

func launch(ctx context.Context, t *testing.T, what string) *part {
	t.Helper()
	p := &part{cmd: exec.CommandContext(ctx, os.Args[0])}
	p.cmd.Env = append(os.Environ(), partEnv+"="+what)
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.lines = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// everyone waits until all have said a word, and returns what they have used so far.
func everyone(t *testing.T, parts []*part, word string) (cpu time.Duration) {
	t.Helper()
	for _, p := range parts {
		var took int64
		if !p.lines.Scan() {
			t.Fatalf("a process ended before it was %s", word)
		}
		if _, err := fmt.Sscanf(p.lines.Text(), word+" %d", &took); err != nil {
			t.Fatalf("a process says %q instead of %q: %v", p.lines.Text(), word, err)
		}
		cpu += time.Duration(took)
	}
	return cpu
}

func (p *part) end(t *testing.T) {
	t.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

type value struct {
	N int
}

// member is a participant with a writer and a reader; it counts how often each of them
// was matched.
type member struct {
	p               *pubsub.Participant
	w               *pubsub.Writer[value]
	r               *pubsub.Reader[value]
	written, read   atomic.Int32
	back            chan struct{}
	reconnectedOnce sync.Once
}

// takePart is the main function of a part; it ends with its standard input.
func takePart(what string) error {
	var url, cuts string
	var n, from, to int
	if _, err := fmt.Sscan(what, &url, &n, &from, &to, &cuts); err != nil {
		return err
	}
	cutting, err := time.ParseDuration(cuts)
	if err != nil {
		return err
	}
	var opts []pubsub.Option
	var k knife
	if cutting > 0 {
		opts = append(opts, pubsub.WithDialer(k.dial(strings.TrimPrefix(url, "mqtt://"))))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	members := make([]*member, to-from)
	errs := make([]error, to-from)
	var all sync.WaitGroup
	room := make(chan struct{}, joining)
	for i := range members {
		room <- struct{}{}
		all.Go(func() {
			members[i], errs[i] = join(ctx, url, from+i, n, opts)
			<-room
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	say("there")
	for _, wave := range []int32{1, 2} {
		if wave == 2 && cutting > 0 {
			return k.andThen(ctx, cutting, members)
		}
		if wave == 2 {
			for _, m := range members {
				<-m.back
			}
			say("back")
		}
		for i, m := range members {
			all.Go(func() {
				if wave == 1 {
					errs[i] = m.matched(ctx)
				} else { // who has not noticed that the broker was away was matched all the time
					errs[i] = m.passes(ctx)
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		say("matched")
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err // the connections end with the process: closing is not measured
}

func say(word string) { fmt.Println(word, int64(used())) }

func join(ctx context.Context, url string, i, n int, opts []pubsub.Option) (*member, error) {
	p, err := pubsub.Join(ctx, url, fmt.Sprintf("p%d", i), opts...)
	if err != nil {
		return nil, err
	}
	m := &member{p: p, back: make(chan struct{})}
	p.Notify(func(up bool) {
		if up {
			m.reconnectedOnce.Do(func() { close(m.back) })
		}
	})
	own, err := pubsub.NewTopic[value](p, fmt.Sprintf("ring-%d", i))
	if err != nil {
		return nil, err
	}
	next, err := pubsub.NewTopic[value](p, fmt.Sprintf("ring-%d", (i+1)%n))
	if err != nil {
		return nil, err
	}
	q := pubsub.QoS{Reliability: pubsub.Reliable}
	if m.w, err = pubsub.NewWriter(ctx, own, pubsub.WithQoS(q)); err != nil {
		return nil, err
	}
	if m.r, err = pubsub.NewReader(ctx, next, pubsub.WithQoS(q)); err != nil {
		return nil, err
	}
	go count(ctx, m.w.Events, &m.written)
	go count(ctx, m.r.Events, &m.read)
	return m, nil
}

// matched waits until writer and reader have been matched, and are.
func (m *member) matched(ctx context.Context) error {
	for m.written.Load() == 0 || m.read.Load() == 0 || len(m.w.Matched()) != 1 || len(m.r.Matched()) != 1 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was matched %d and %d times: %d and %d are now, and it is connected: %t", m.p.ID(), m.written.Load(), m.read.Load(), len(m.w.Matched()), len(m.r.Matched()), m.p.Connected())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

func count(ctx context.Context, events func(context.Context) iter.Seq2[pubsub.Event, error], n *atomic.Int32) {
	for e := range events(ctx) {
		if _, matched := e.(pubsub.Matched); matched {
			n.Add(1)
		}
	}
}
