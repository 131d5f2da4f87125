package control

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"
)

const (
	// maxWaiting messages may wait for the desk, maxRefused of them to be refused; more
	// are dropped without an answer.
	maxWaiting = 64
	maxRefused = 16
)

// message is one that waits for the desk: a command, or why it is none.
type message struct {
	command Command
	refused error
}

// RequestTopic and AnswerTopic are the levels of the raw topics.
var (
	RequestTopic = []string{"control", "request"}
	AnswerTopic  = []string{"control", "answer"}
)

// Answer tells what became of a command.
type Answer struct {
	ID    string `json:"id"` // of the command; empty if it cannot be told
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"` // why nothing was done
}

// Desk takes in commands and has them performed, one at a time.
type Desk struct {
	p      *pubsub.Participant
	cancel context.CancelFunc
	stop   func()
	wg     sync.WaitGroup
}

// Open opens a desk at p, which stays its caller's. perform carries out a command,
// or says why it does not; its context ends with the desk.
func Open(ctx context.Context, p *pubsub.Participant, key Key, cfg scenario.Config, perform func(context.Context, Command) error) (*Desk, error) {
	running, cancel := context.WithCancel(context.Background())
	d := &Desk{p: p, cancel: cancel}
	messages := make(chan message, maxWaiting)
	j := &judge{key: key, cfg: &cfg, seen: map[string]time.Time{}}
	var err error
	d.stop, err = p.SubscribeRaw(ctx, pubsub.Main, RequestTopic, func(m pubsub.RawMessage) {
		// A command that somebody had retained would be performed at each start.
		if m.Retained {
			return
		}
		c, err := j.admit(m.Payload, time.Now())
		if err != nil && len(messages) >= maxRefused {
			return // the rest of the room is for who has the key
		}
		select {
		case messages <- message{c, err}:
		default:
		}
	})
	if err != nil {
		cancel()
		return nil, err
	}
	d.wg.Go(func() {
		for {
			select {
			case m := <-messages:
				if m.refused == nil {
					m.refused = perform(running, m.command)
				}
				d.answer(m.command.ID, m.refused)
			case <-running.Done():
				return
			}
		}
	})
	return d, nil
}

func (d *Desk) answer(id string, err error) {
	a := Answer{ID: id, OK: err == nil}
	if err != nil {
		a.Error = err.Error()
	}
	text, _ := json.Marshal(a)
	_ = d.p.PublishRaw(pubsub.Side, AnswerTopic, text, false)
}

// Close ends the desk and waits for the command that is being performed.
func (d *Desk) Close() {
	d.stop()
	d.cancel()
	d.wg.Wait()
}
