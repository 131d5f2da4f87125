package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	shared "padme/cmd/internal/web"
	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/control"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/telemetry"
	"padme/cmd/rescue-demo/internal/web"
	"padme/pubsub"
)

// pageAddress is where the page is unless told otherwise: always at the same place,
// so that a page that is open finds the next run. Where that is taken a free port
// is.
const pageAddress = "127.0.0.1:8146"

// pageConfig is where the page is served.
type pageConfig struct {
	Addr   string // empty: nowhere
	Chosen bool   // by the user
	Open   bool   // in a browser
	Stay   bool   // after the run
}

// settle decides whether there is a page, once the flags are known. A script that
// reads JSON looks at none unless it says so.
func (c *pageConfig) settle(chosen, asJSON bool) error {
	if c.Chosen = chosen; c.Addr == "off" || asJSON && !chosen && !c.Open && !c.Stay {
		c.Addr = ""
	}
	if c.Addr == "" {
		if c.Open {
			return errors.New("--open without a page: leave --web off out")
		}
		if c.Stay {
			return errors.New("--stay without a page: leave --web off out")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Addr); err != nil {
		return fmt.Errorf("--web %q: give host:port, such as %s, or off: %w", c.Addr, pageAddress, err)
	}
	return nil
}

// page is what a run needs to be looked at and interfered with.
type page struct {
	key    control.Key // nil: it only looks
	server *shared.Server
	p      *pubsub.Participant

	telemetry *telemetry.Telemetry
	desk      *control.Desk
	operator  *operator
}

// openPage serves the page and says where. Nil: there is to be none.
func openPage(ctx context.Context, cfg pageConfig, c *center.Center, progress io.Writer) (_ *page, err error) {
	if cfg.Addr == "" {
		return nil, nil
	}
	pg := &page{}
	if onlyHere(cfg.Addr) {
		pg.key = control.NewKey()
	}
	if pg.server, err = pg.serve(ctx, cfg, c); err != nil {
		return nil, fmt.Errorf("--web %s: the page cannot be served: %w", cfg.Addr, err)
	}
	if pg.p, err = telemetry.Participant(ctx, c.URL()); err != nil {
		pg.server.Close()
		return nil, err
	}
	fmt.Fprintf(progress, "page at %s%s\n", pg.server.URL(), note(pg.key == nil, " (open to other machines, without controls)"))
	if cfg.Open {
		browse(pg.server.URL(), progress)
	}
	return pg, nil
}

func (pg *page) serve(ctx context.Context, cfg pageConfig, c *center.Center) (*shared.Server, error) {
	site := shared.Site{
		Files:  web.Files(),
		Config: shared.Config{Prefix: "padme", Domain: scenario.Domain, Page: web.NewConfig(scenario.LockTopic, pg.key)},
		Dial: func(ctx context.Context) (net.Conn, error) {
			return pubsub.DialBroker(ctx, c.URL(), nil)
		},
	}
	if pg.key != nil {
		site.Config.URL = c.WebSocket() // which only this machine may reach
	}
	return serveAt(ctx, cfg, site)
}

// onlyHere reports whether an address cannot be reached from other machines.
func onlyHere(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && shared.Loopback(host)
}

// begin takes commands, if the page has a key, and publishes what there is to see.
func (pg *page) begin(ctx context.Context, src telemetry.Source, o *operator) (err error) {
	if pg.key != nil {
		pg.operator = o
		if pg.desk, err = control.Open(ctx, pg.p, pg.key, src.Config, o.perform); err != nil {
			return err
		}
	}
	pg.telemetry, err = telemetry.Start(ctx, pg.p, src)
	return err
}

// over takes no more commands and tells for the last time how things are.
func (pg *page) over(ctx context.Context) error {
	if pg.desk != nil {
		pg.desk.Close()
	}
	if pg.operator != nil {
		pg.operator.wait()
	}
	if pg.telemetry != nil {
		pg.telemetry.Close()
	}
	return pg.p.Close(ctx)
}

// browse opens a URL in the browser of whoever sits here.
func browse(url string, progress io.Writer) {
	if err := shared.Browse(url); err != nil {
		fmt.Fprintf(progress, "no browser was opened: %v: open %s yourself\n", err, url)
	}
}

func note(on bool, text string) string {
	if on {
		return text
	}
	return ""
}
