package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"padme/cmd/internal/recording"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"
)

// recorded are the topics of a recording: what `pubsub-node ui` looks at, and what is told of
// the world. The pictures are left out.
var recorded = [][]string{
	{"show", "+"},
	{"presence", "+"},
	{"lock", "+", "+", "state"},
	{"lock", "+", "view"},
	{"lock", "+", "member", "+"},
	{"lock", "+", "events"},
}

// maxUnwritten bounds the messages that wait for the disk.
const maxUnwritten = 1 << 14

// recorder writes what is published on a side, until it is closed.
type recorder struct {
	file     *os.File
	w        *recording.Writer
	p        *pubsub.Participant
	incoming chan arrival
	stop     chan struct{}
	wg       sync.WaitGroup

	mu     sync.Mutex
	missed int
	err    error // the first one of the file
}

// arrival is a message and when it came.
type arrival struct {
	at time.Time
	m  pubsub.RawMessage
}

// createFiles makes the files of the recordings, which must not exist: all of them, or none.
func createFiles(names []string) (files []*os.File, err error) {
	for _, name := range names {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			for _, f := range files {
				err = errors.Join(err, f.Close(), os.Remove(f.Name()))
			}
			return nil, fmt.Errorf("--record: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// record begins to record a side to a file, which it closes in the end.
func record(ctx context.Context, s *side, file *os.File) (_ *recorder, err error) {
	r := &recorder{file: file, incoming: make(chan arrival, maxUnwritten), stop: make(chan struct{})}
	if r.w, err = recording.NewWriter(r.file, s.cfg.Domain); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	if r.p, err = scenario.Join(ctx, true, s.center.URL(), "recorder", s.cfg.InDomain()); err != nil {
		return nil, errors.Join(err, r.file.Close())
	}
	r.wg.Go(r.write)
	for _, levels := range recorded {
		if _, err := r.p.SubscribeRaw(ctx, pubsub.Main, levels, r.take); err != nil {
			return nil, errors.Join(err, r.close(ctx))
		}
	}
	return r, nil
}

// take must not block.
func (r *recorder) take(m pubsub.RawMessage) {
	select {
	case r.incoming <- arrival{time.Now(), m}:
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.missed++
	}
}

func (r *recorder) write() {
	for {
		select {
		case a := <-r.incoming:
			r.fail(r.w.Write(a.at, a.m.Levels, a.m.Payload, a.m.Retained))
		case <-r.stop:
			return
		}
	}
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

// close ends the recording with all that has come by then.
func (r *recorder) close(ctx context.Context) error {
	err := within(ctx, ending, r.p.Close)
	close(r.stop)
	r.wg.Wait()
	for len(r.incoming) > 0 {
		a := <-r.incoming
		r.fail(r.w.Write(a.at, a.m.Levels, a.m.Payload, a.m.Retained))
	}
	if r.missed > 0 {
		r.fail(r.w.Missed(time.Now(), r.missed))
	}
	return errors.Join(err, r.err, r.w.Close(), r.file.Close())
}
