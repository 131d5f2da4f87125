package center

import (
	"context"
	"errors"
	"net"
	"sync"

	"padme/broker"
	"padme/cmd/rescue-demo/internal/scenario"
)

// station is the embedded broker, which may be stopped and started again at the
// same addresses.
type station struct {
	cfg            broker.Config
	url, webSocket string

	mu sync.Mutex
	b  *broker.Broker // nil: it is stopped
}

func startStation(ctx context.Context, cfg scenario.Config) (*station, error) {
	s := &station{cfg: broker.Config{TCP: cfg.Listen, WebSocket: cfg.WebSocket}}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	s.url = s.b.URL()
	s.cfg.TCP = s.b.TCPAddr().String()
	if a := s.b.WebSocketAddr(); a != nil {
		s.cfg.WebSocket = a.String()
		s.webSocket = "ws://" + s.cfg.WebSocket
	}
	return s, nil
}

// start does nothing when the broker runs.
func (s *station) start(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.b == nil {
		s.b, err = broker.Start(ctx, s.cfg)
	}
	return err
}

// stop does nothing when the broker is stopped.
func (s *station) stop(ctx context.Context) error {
	s.mu.Lock()
	b := s.b
	s.b = nil
	s.mu.Unlock()
	if b == nil {
		return nil
	}
	return b.Close(ctx)
}

var errStopped = errors.New("the broker is stopped")

func (s *station) dial(ctx context.Context) (net.Conn, error) {
	s.mu.Lock()
	b := s.b
	s.mu.Unlock()
	if b == nil {
		return nil, errStopped
	}
	return b.Dial(ctx)
}
