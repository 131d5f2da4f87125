package web

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
)

//go:embed base/*.js base/*.css
var base embed.FS

// Config is what a page is told at /config.json.
type Config struct {
	Prefix string `json:"prefix"`
	Domain string `json:"domain"`
	// URL is the broker's WebSocket listener, ws or wss. Empty: the page uses the
	// bridge, at /mqtt of its own server.
	URL string `json:"url"`
	// User is whom the page connects as, empty for nobody. The page asks for the
	// password: it never passes through here.
	User string `json:"user"`
	// Replay has the page show /recording instead of a broker.
	Replay bool `json:"replay,omitempty"`
	// Page is whatever the page itself wants to know.
	Page any `json:"page,omitempty"`
}

// Site is a page and what it needs.
type Site struct {
	// Files are served at /, with index.html for / itself. Scripts and styles must
	// be files: the content security policy allows nothing inline, and no other host.
	// What all pages share is at /base/.
	Files  fs.FS
	Config Config
	// Dial opens a byte stream to the broker for the bridge. nil: there is no bridge,
	// and Config.URL is needed, or a Recording. It is called by many goroutines.
	Dial func(context.Context) (net.Conn, error)
	// Recording is the name of a file that is served at /recording, for Config.Replay;
	// SecondRecording likewise of one at /recording/2, for a page that shows two.
	Recording, SecondRecording string
}

// contentTypes are named here, as a system may know others for these endings.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".json": "application/json", ".svg": "image/svg+xml", ".png": "image/png",
}

// check returns what the page is told, and the policy that it is held to.
func (s *Site) check() (config []byte, policy string, err error) {
	connect := "'self'"
	if s.Config.URL != "" {
		u, err := url.Parse(s.Config.URL)
		if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || strings.ContainsAny(u.Host, " ;,'\"") {
			return nil, "", fmt.Errorf("web: %q is no WebSocket URL: write it as \"ws://host:9001\" or \"wss://host\"", s.Config.URL)
		}
		connect += " " + u.Scheme + "://" + u.Host
	} else if s.Dial == nil && s.Recording == "" {
		return nil, "", fmt.Errorf("web: a site needs a WebSocket URL, a way to dial the broker or a recording")
	}
	config, err = json.Marshal(s.Config)
	return config, "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src " + connect +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", err
}

// handler serves files and configuration; bridge serves /mqtt.
func (s *Site) handler(bridge http.Handler) (http.Handler, error) {
	config, policy, err := s.check()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", files(s.Files))
	mux.Handle("GET /base/", files(base))
	mux.HandleFunc("GET /config.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentTypes[".json"])
		_, _ = w.Write(config)
	})
	if s.Dial != nil {
		mux.Handle("GET /mqtt", bridge)
	}
	for path, file := range map[string]string{"/recording": s.Recording, "/recording/2": s.SecondRecording} {
		if file == "" {
			continue
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/gzip")
			http.ServeFile(w, r, file)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	}), nil
}

func files(tree fs.FS) http.Handler {
	serve := http.FileServerFS(tree)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind := contentTypes[path.Ext(r.URL.Path)]; kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		serve.ServeHTTP(w, r)
	})
}
