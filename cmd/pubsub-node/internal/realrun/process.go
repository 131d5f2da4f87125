package realrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// process is that of a participant, as it is seen from this one.
type process struct {
	id      string
	command *exec.Cmd
	in      io.WriteCloser
	tells   *json.Encoder
	answers chan answer // closed when it says nothing more
}

// begin starts the process of a participant.
func begin(command []string, stderr io.Writer, o *order) (*process, error) {
	p := &process{id: o.ID, command: exec.Command(command[0]), answers: make(chan answer, 1)}
	p.command.Args = command[1:]
	p.command.Stderr = stderr
	p.command.WaitDelay = time.Second
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("the process of %s: %w", o.ID, err)
	}
	p.in, p.tells = in, json.NewEncoder(in)
	go func() { // ends with the process
		defer close(p.answers)
		for from := json.NewDecoder(out); ; {
			var a answer
			if from.Decode(&a) != nil {
				return
			}
			p.answers <- a
		}
	}()
	if err := p.tells.Encode(o); err != nil {
		p.dismiss()
		p.wait()
		return nil, fmt.Errorf("the process of %s: %w", o.ID, err)
	}
	return p, nil
}

func (p *process) tell(s step) error {
	if err := p.tells.Encode(s); err != nil {
		return fmt.Errorf("the process of %s has ended: %w", p.id, err)
	}
	return nil
}

// hear waits for the next answer.
func (p *process) hear(ctx context.Context) (*answer, error) {
	select {
	case a, more := <-p.answers:
		switch {
		case !more:
			return nil, fmt.Errorf("the process of %s has ended", p.id)
		case a.Failed != "":
			return nil, fmt.Errorf("%s: %w", p.id, errors.New(a.Failed))
		}
		return &a, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dismiss lets the process end; wait waits until it has, and ends one that does not.
func (p *process) dismiss() { _ = p.in.Close() }

func (p *process) wait() {
	killed := time.AfterFunc(5*time.Second, func() { _ = p.command.Process.Kill() })
	defer killed.Stop()
	for range p.answers { // answers that no call of hear took
	}
	_ = p.command.Wait()
}
