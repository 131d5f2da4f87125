package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"padme/cmd/internal/recording"
	shared "padme/cmd/internal/web"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/web"
	"padme/pubsub"
)

// maxReplayed bounds the lines of a recording that a page is given: it keeps all of them.
const maxReplayed = 256 << 20

// serveSides serves the page of two runs, without controls: what is done to one run alone
// would make them differ.
func serveSides(ctx context.Context, cfg pageConfig, sides [2]*side, progress io.Writer) (*shared.Server, error) {
	c := sides[0].center
	site := shared.Site{
		Files: web.Comparison(),
		Config: shared.Config{
			Prefix: "padme", Domain: sides[0].cfg.Domain,
			Page: web.ComparisonConfig{LockTopic: scenario.LockTopic, Domains: []string{sides[0].cfg.Domain, sides[1].cfg.Domain}},
		},
		Dial: func(ctx context.Context) (net.Conn, error) { return pubsub.DialBroker(ctx, c.URL(), nil) },
	}
	if onlyHere(cfg.Addr) {
		site.Config.URL = c.WebSocket()
	}
	return serveSite(ctx, cfg, site, progress)
}

func serveSite(ctx context.Context, cfg pageConfig, site shared.Site, progress io.Writer) (*shared.Server, error) {
	server, err := serveAt(ctx, cfg, site)
	if err != nil {
		return nil, fmt.Errorf("--web %s: the page cannot be served: %w", cfg.Addr, err)
	}
	fmt.Fprintf(progress, "page at %s\n", server.URL())
	if cfg.Open {
		browse(server.URL(), progress)
	}
	return server, nil
}

// serveAt serves a site where it is to be, or at a free port if that was not chosen and is taken.
func serveAt(ctx context.Context, cfg pageConfig, site shared.Site) (*shared.Server, error) {
	log := slog.New(slog.DiscardHandler)
	ctx = context.WithoutCancel(ctx) // which bounds the start; the connections of pages last until close
	s, err := shared.Serve(ctx, cfg.Addr, site, log)
	if host, _, bad := net.SplitHostPort(cfg.Addr); err != nil && !cfg.Chosen && bad == nil {
		return shared.Serve(ctx, net.JoinHostPort(host, "0"), site, log)
	}
	return s, err
}

// replay serves the page of two recordings until ctx ends.
func replay(ctx context.Context, cfg pageConfig, files []string, progress io.Writer) error {
	if cfg.Addr == "" {
		return wrong(errors.New("--replay without a page: leave --web off and --json out"))
	}
	domains := make([]string, 0, len(files))
	for _, name := range files {
		s, err := summarize(name)
		if err != nil {
			return wrong(err)
		}
		fmt.Fprintf(progress, "replay %s: %d messages in %v\n", name, s.Messages, s.Length.Round(time.Second))
		domains = append(domains, s.Domain)
	}
	server, err := serveSite(ctx, cfg, shared.Site{
		Files: web.Comparison(), Recording: files[0], SecondRecording: files[1],
		Config: shared.Config{Replay: true, Page: web.ComparisonConfig{LockTopic: scenario.LockTopic, Domains: domains}},
	}, progress)
	if err != nil {
		return err
	}
	defer server.Close()
	<-ctx.Done()
	return nil
}

func summarize(name string) (s recording.Summary, err error) {
	f, err := os.Open(name)
	if err != nil {
		return s, fmt.Errorf("--replay: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s, err = recording.Summarize(f, maxReplayed); err != nil {
		return s, fmt.Errorf("--replay %s: %w: rescue-demo --compare fair --record A,B makes two", name, err)
	}
	return s, nil
}
