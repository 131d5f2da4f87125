package brokers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// startTime bounds how long a broker may take until it serves; RabbitMQ needs
// ten seconds of a processor.
const startTime = 2 * time.Minute

// ErrMissing says that a broker is not installed.
var ErrMissing = errors.New("not installed")

// A Server is a broker of one or several nodes.
type Server struct {
	kind    Kind
	helpers []*process // what the nodes need and nobody kills
	nodes   []*node
}

// A node is one server process, which keeps its address and data when it is
// started again.
type node struct {
	address string // of its MQTT listener, host:port
	process
}

// Start runs a broker whose data lie below dir and returns when every node
// serves MQTT. Only brokers that are processes can be started; the embedded one
// is package broker.
func Start(ctx context.Context, kind Kind, dir string) (*Server, error) {
	if err := kind.check(); err != nil {
		return nil, err
	}
	prepare := map[Kind]func(*Server, string) error{Mosquitto: mosquitto, RabbitMQ: rabbitMQ, NATS: nats}[kind]
	if prepare == nil {
		return nil, fmt.Errorf("brokers: %s is no process", kind)
	}
	return startWith(ctx, kind, dir, prepare)
}

func startWith(ctx context.Context, kind Kind, dir string, prepare func(*Server, string) error) (*Server, error) {
	s := &Server{kind: kind}
	if err := prepare(s, dir); err != nil {
		return nil, fmt.Errorf("brokers: %s: %w", kind, err)
	}
	for _, h := range s.helpers {
		if err := h.start(); err != nil {
			s.Stop()
			return nil, err
		}
	}
	for i := range s.nodes {
		if err := s.nodes[i].start(); err != nil {
			s.Stop()
			return nil, err
		}
	}
	if err := s.Await(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// URL lists the addresses of all nodes, as pubsub.Join takes them.
func (s *Server) URL() string {
	urls := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		urls[i] = "mqtt://" + n.address
	}
	return strings.Join(urls, ",")
}

// Nodes is how many there are.
func (s *Server) Nodes() int { return len(s.nodes) }

// NodeURL is the address of one node.
func (s *Server) NodeURL(i int) string { return "mqtt://" + s.nodes[i].address }

// Kill ends a node as kill -9 does and returns when it is gone.
func (s *Server) Kill(i int) { s.nodes[i].kill() }

// Restart starts a node that was killed again, with its address and data. It does
// not wait until the node serves.
func (s *Server) Restart(i int) error { return s.nodes[i].start() }

// Await returns when every node that runs accepts MQTT sessions.
func (s *Server) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, n := range s.nodes {
		if n.cmd == nil {
			continue
		}
		for {
			err := handshake(ctx, n.address)
			if err == nil {
				break
			}
			select {
			case <-n.ended:
				return fmt.Errorf("brokers: %s ended by itself; the end of its log:\n%s", s.kind, n.tail())
			case <-ctx.Done():
				return fmt.Errorf("brokers: %s does not serve at %s: %w; the end of its log:\n%s", s.kind, n.address, err, n.tail())
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return nil
}

// Stop ends everything. It may be called again.
func (s *Server) Stop() {
	for _, n := range s.nodes {
		n.kill()
	}
	for _, h := range s.helpers {
		h.kill()
	}
}

// write makes a file with its folders.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
