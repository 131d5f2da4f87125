package brokers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// process is a command that can be killed and started again. It writes its
// output to a file, so that nothing has to read it.
type process struct {
	command []string
	env     []string
	log     string
	cmd     *exec.Cmd // nil while it does not run, unless it ended by itself
	ended   chan struct{}
}

func (p *process) start() error {
	if err := os.MkdirAll(filepath.Dir(p.log), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = endsWithUs()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("brokers: %w", err)
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go func(ended chan<- struct{}) {
		defer close(ended)
		_ = cmd.Wait() // by a signal as a rule; its log has the reason
	}(p.ended)
	return nil
}

func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	p.cmd = nil
}

// tail is the end of the log.
func (p *process) tail() []byte {
	text, _ := os.ReadFile(p.log)
	return text[max(0, len(text)-2000):]
}
