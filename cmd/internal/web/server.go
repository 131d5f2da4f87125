package web

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Server serves a site until it is closed.
type Server struct {
	listener net.Listener
	http     http.Server
	bridge   *bridge
	done     chan struct{} // closed when Serve has returned
	close    sync.Once
}

// Serve listens on addr, for example "127.0.0.1:8080" or "127.0.0.1:0" for a free
// port, and serves site in the background. The caller must Close it; the end of ctx
// ends the connections of the bridge, but not the server.
func Serve(ctx context.Context, addr string, site Site, log *slog.Logger) (*Server, error) {
	s := &Server{bridge: newBridge(ctx, site.Dial, log), done: make(chan struct{})}
	handler, err := site.handler(s.bridge)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	if s.listener, err = lc.Listen(ctx, "tcp", addr); err != nil {
		return nil, fmt.Errorf("%w: give another address for the page, port 0 takes a free one", err)
	}
	if !s.Open() {
		handler = onlyLocal(handler)
	}
	s.http = http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(s.listener)
	}()
	return s, nil
}

// URL is where a browser on this machine finds the page.
func (s *Server) URL() string {
	a := s.listener.Addr().(*net.TCPAddr)
	host := a.IP.String()
	if a.IP.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(a.Port)) + "/"
}

// Open reports whether other machines reach the page, which then is theirs as much
// as ours: whoever reaches it speaks to the broker from this machine.
func (s *Server) Open() bool { return !s.listener.Addr().(*net.TCPAddr).IP.IsLoopback() }

// Close ends the server and every connection of the bridge, and waits for them. It
// may be called again.
func (s *Server) Close() {
	s.close.Do(func() {
		_ = s.http.Close()
		s.bridge.close()
	})
	<-s.done
	s.bridge.running.Wait()
}

// onlyLocal refuses requests for other names than this machine's own: a name that
// a foreign page's owner lets point to 127.0.0.1 would make that page ours by the
// rules of the browser.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil { // it names no port
			host = strings.Trim(r.Host, "[]")
		}
		if !Loopback(host) {
			http.Error(w, "this page is served to localhost only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
