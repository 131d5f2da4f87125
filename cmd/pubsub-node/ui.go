package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"padme/cmd/internal/web"
	"padme/pubsub"
)

//go:embed page/*.html page/*.css page/*.js page/*.svg
var page embed.FS

// uiFlags are the flags of `pubsub-node ui`.
type uiFlags struct {
	web       string
	open      bool
	readyFile string
	replay    string
}

func newUI(s *session) *cobra.Command {
	f := &uiFlags{}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show locks, their tree and who is there in a browser",
		Long: `ui serves a page that shows every lock with its holder and waiters, the spanning
tree with the messages that travel in it, the participants, and what happened in the
last minutes: also how long requests waited and holders held, of each lock, by which it
sorts, and which locks are held for longer than usual.

The page is an MQTT client of its own. If --broker is a WebSocket URL (ws, wss) it
connects there, otherwise through a bridge of this program, which then speaks to the
broker as the flags say. With --user the page asks for the password: it never passes
through this program.

With --replay it shows what "pubsub-node record" wrote to a file, and needs no broker. Such
a file can also be dropped onto the page.

It is served to this machine only. With --web :8080 others see it, too, and reach the
broker through the bridge as if they were here.
INT or TERM ends it.`,
		Example: `  pubsub-node ui --open
  pubsub-node ui --broker ws://host:9001 --user panel
  pubsub-node ui --broker mqtts://host --cafile ca.pem --cert panel.pem --key panel.key
  pubsub-node ui --replay shift.padme --open`,
		Args:              noArgs,
		PersistentPreRunE: f.refuse,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return f.run(ctx, s, cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.web, "web", "127.0.0.1:8080", "`address` for browsers; :8080 is open to the network, port 0 takes a free one")
	fs.BoolVar(&f.open, "open", false, "open the page in the browser of this machine")
	fs.StringVar(&f.replay, "replay", "", "show a recorded `file` instead of a broker")
	fs.StringVar(&f.readyFile, "ready-file", "", "`file` that gets the page's URL once it is served")
	return cmd
}

// refuse: a flag that would be ignored is an error.
func (f *uiFlags) refuse(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"id", "password-file"} {
		if cmd.Flags().Changed(name) {
			return usageError("--%s is not for ui: the page connects by itself, and asks for the password of --user", name)
		}
	}
	for _, name := range []string{"broker", "user", "cafile", "cert", "key", "domain", "prefix"} {
		if f.replay != "" && cmd.Flags().Changed(name) {
			return usageError("--%s is not for --replay, which needs no broker: leave one of them out", name)
		}
	}
	return nil
}

func (f *uiFlags) run(ctx context.Context, s *session, stdout io.Writer) error {
	if err := checkAddress("web", f.web); err != nil {
		return err
	}
	site, shows, err := f.site(ctx, s)
	if err != nil {
		return err
	}
	server, err := web.Serve(ctx, f.web, *site, s.logger(slog.LevelWarn))
	if err != nil {
		return fmt.Errorf("--web %s: %w", f.web, err)
	}
	defer server.Close()
	f.welcome(stdout, shows, site, server)
	if err := (&brokerFlags{readyFile: f.readyFile}).ready(server.URL()); err != nil {
		return err
	}
	if f.open {
		if err := web.Browse(server.URL()); err != nil {
			return fmt.Errorf("--open: %w: open %s yourself", err, server.URL())
		}
	}
	<-ctx.Done()
	return endOfStream(ctx)
}

// site is the page, and in words what it shows.
func (f *uiFlags) site(ctx context.Context, s *session) (site *web.Site, shows string, err error) {
	files, err := fs.Sub(page, "page")
	if err != nil {
		return nil, "", err
	}
	if f.replay != "" {
		return replayed(f.replay, files)
	}
	return f.live(ctx, s, files)
}

// live is the page of a broker, which must answer now: a wrong --broker is told here, where
// the mistake is.
func (f *uiFlags) live(ctx context.Context, s *session, files fs.FS) (site *web.Site, shows string, err error) {
	if s.timeout <= 0 {
		return nil, "", usageError("--timeout %v is not positive", s.timeout)
	}
	if _, err := rootOf(s.prefix, s.domain); err != nil {
		return nil, "", usageError("%w", err)
	}
	if strings.Contains(s.broker, "@") {
		return nil, "", usageError("--broker contains credentials: give --user, and the password to the page")
	}
	config, err := s.clientTLS()
	if err != nil {
		return nil, "", err
	}
	dial := func(ctx context.Context) (net.Conn, error) { return pubsub.DialBroker(ctx, s.broker, config) }
	first, cancel := context.WithTimeoutCause(ctx, s.timeout, s.joinTimeout())
	defer cancel()
	c, err := dial(first)
	if errors.Is(err, pubsub.ErrInvalid) {
		return nil, "", err
	}
	if err != nil {
		return nil, "", endedBy(ctx, fmt.Errorf("%w: %s: %w: start one with \"pubsub-node broker\" or give its URL by --broker", pubsub.ErrUnreachable, s.broker, err))
	}
	_ = c.Close()
	site = &web.Site{Files: files, Config: web.Config{Prefix: s.prefix, Domain: s.domain, User: s.user}}
	if config == nil && f.direct(s.broker) {
		site.Config.URL = s.broker
		return site, fmt.Sprintf("broker   %s, directly", s.broker), nil
	}
	site.Dial = dial
	return site, fmt.Sprintf("broker   %s, by the bridge of this program", s.broker), nil
}

// direct reports whether the page can connect to the broker by itself: it offers
// WebSocket, at an address that is the broker's from wherever the page is looked at.
func (f *uiFlags) direct(broker string) bool {
	u, err := url.Parse(broker)
	// A content security policy cannot name an IPv6 address.
	if err != nil || strings.Contains(broker, ",") || strings.Contains(u.Hostname(), ":") || u.Scheme != "ws" && u.Scheme != "wss" {
		return false
	}
	host, _, err := net.SplitHostPort(f.web)
	return !web.Loopback(u.Hostname()) || err == nil && web.Loopback(host)
}

// welcome says where the page is, what it shows and whom it lets in.
func (f *uiFlags) welcome(w io.Writer, shows string, site *web.Site, server *web.Server) {
	fmt.Fprintf(w, "page     %s\n%s\n", server.URL(), shows)
	if server.Open() {
		fmt.Fprintln(w, "open     everybody who reaches this machine sees the page, without TLS")
		if site.Dial != nil {
			fmt.Fprintln(w, "         and may do at the broker what this machine may")
		}
	}
}
