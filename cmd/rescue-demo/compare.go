package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"padme/cmd/rescue-demo/internal/center"
	"padme/cmd/rescue-demo/internal/observer"
	"padme/cmd/rescue-demo/internal/scenario"
	"padme/cmd/rescue-demo/internal/summary"
	"padme/cmd/rescue-demo/internal/telemetry"
	"padme/qosmutex"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// side is one of two runs of the same scenario and seed under different models. The robots of
// both walk the same ways at the same time; each run has a lock topic, a root and a domain of
// its own, at one broker.
type side struct {
	cfg      scenario.Config
	center   *center.Center
	observer *observer.Observer
	page     *page     // publishes what there is to see, and takes no commands; nil: nobody looks
	recorder *recorder // nil: nothing is recorded
	result   summary.Run
}

// sideConfigs are those of the two runs: the second one has the other models.
func sideConfigs(cfg scenario.Config, models qosmutex.Models) [2]scenario.Config {
	cfg.Fixed, cfg.SwitchAt = true, cfg.Duration
	other := cfg
	cfg.Domain = scenario.Domain
	other.Domain, other.Models = scenario.Domain+"-compared", models
	return [2]scenario.Config{cfg, other}
}

// twice is what the command line says about two runs.
type twice struct {
	Compare        string
	Record, Replay []string
	models         qosmutex.Models // of Compare
}

// check refuses what does not go with a complete cfg, or with given flags.
func (t *twice) check(cfg *scenario.Config, given *pflag.FlagSet) (err error) {
	for flag, files := range map[string][]string{"--record": t.Record, "--replay": t.Replay} {
		if files != nil && (len(files) != 2 || files[0] == files[1] || slices.Contains(files, "")) {
			return fmt.Errorf("%s %s: give two files, with a comma between them", flag, strings.Join(files, ","))
		}
	}
	if t.Replay != nil {
		given.Visit(func(f *pflag.Flag) {
			if !slices.Contains([]string{"replay", "record", "compare", "web", "open", "stay"}, f.Name) {
				err = fmt.Errorf("--replay runs nothing: leave --%s out", f.Name)
			}
		})
		return err
	}
	if t.Record != nil && t.Compare == "" {
		return errors.New("--record without --compare: give both; pubsub-node record records the locks of any run")
	}
	if t.Compare != "" {
		t.models, err = comparedModels(t.Compare, cfg.Models)
	}
	return err
}

// comparedModels reads the models of --compare: all four, or the priority model alone, with the others as they are.
func comparedModels(text string, models qosmutex.Models) (qosmutex.Models, error) {
	if text == "fair" || text == "level" {
		_, rest, _ := strings.Cut(models.String(), "-")
		text += "-" + rest
	}
	m, err := qosmutex.ParseModels(text)
	if err != nil {
		return m, fmt.Errorf("--compare %q: %w; fair alone leaves the other models as they are", text, err)
	}
	if m.Priority != qosmutex.Level && m.Priority != qosmutex.Fair {
		return m, fmt.Errorf("--compare %s: give models that begin with level or fair", m)
	}
	if m == models {
		return m, fmt.Errorf("--compare %s: these are the models of the first run, too: give others", m)
	}
	return m, nil
}

// runCompared plays both sides at the same time and has tell say what each sums up to, as run
// does. Their worlds begin to move at the same moment.
func runCompared(ctx context.Context, both [2]scenario.Config, web pageConfig, files []*os.File, progress io.Writer, tell func([2]summary.Summary) error) (err error) {
	starting, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	served := func() {}
	defer func() { served() }()
	if web.Addr != "" && both[0].Broker == "" {
		both[0].WebSocket = "127.0.0.1:0"
	}
	var sides [2]*side
	for i, cfg := range both {
		if i > 0 {
			cfg.Broker = sides[0].center.URL()
		}
		if sides[i], err = openSide(starting, cfg, web.Addr != "" || files != nil); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, sides[i].close(ctx)) }()
		if files != nil {
			if sides[i].recorder, err = record(starting, sides[i], files[i]); err != nil {
				return err
			}
		}
	}
	c := sides[0].center
	fmt.Fprintf(progress, "broker at %s; to see what is published: %s\n", c.URL(), subscribeLine(c.URL()))
	if web.Addr != "" {
		server, err := serveSides(starting, web, sides, progress)
		if err != nil {
			return err
		}
		served = server.Close
	}
	searchBoth(ctx, sides, progress)
	sums, err := sumBoth(ctx, sides)
	if err != nil {
		return err
	}
	if err := tell(sums); err != nil {
		return err
	}
	if web.Stay && ctx.Err() == nil {
		fmt.Fprintf(progress, "\nthe page stays until Ctrl-C\n")
		<-ctx.Done()
	}
	return nil
}

func openSide(ctx context.Context, cfg scenario.Config, watched bool) (_ *side, err error) {
	s := &side{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if s.center, err = center.Start(ctx, cfg); err != nil {
		return nil, err
	}
	if s.observer, err = observer.Start(ctx, s.center.URL(), cfg.FrequencyNames(), cfg.InDomain()); err != nil {
		return nil, err
	}
	s.observer.Models(time.Now(), cfg.Models.String())
	if watched {
		s.page = &page{}
		if s.page.p, err = telemetry.Participant(ctx, s.center.URL(), cfg.InDomain()); err != nil {
			s.page = nil
			return nil, err
		}
	}
	return s, nil
}

// close may follow observed and pg.over, after which it closes what is left.
func (s *side) close(ctx context.Context) (err error) {
	if s.recorder != nil {
		err = s.recorder.close(ctx)
	}
	if s.page != nil {
		err = errors.Join(err, within(ctx, ending, s.page.p.Close))
	}
	if s.observer != nil {
		err = errors.Join(err, within(ctx, ending, s.observer.Close))
	}
	if s.center != nil {
		err = errors.Join(err, within(ctx, ending, s.center.Close))
	}
	return err
}

// searchBoth lets the robots of both sides out at once. On a terminal the first one is drawn.
func searchBoth(ctx context.Context, sides [2]*side, progress io.Writer) {
	start := time.Now()
	var back sync.WaitGroup
	for i, s := range sides {
		shown := progress
		if i > 0 {
			shown = io.Discard
		}
		back.Go(func() { s.result = search(ctx, start, s.cfg, s.center, s.observer, nil, s.page, shown) })
	}
	back.Wait()
}

func sumBoth(ctx context.Context, sides [2]*side) (sums [2]summary.Summary, err error) {
	for i, s := range sides {
		observed(ctx, &s.result, s.center, s.observer)
		s.observer = nil
		sums[i] = summary.Of(s.result)
		if s.recorder != nil {
			err = errors.Join(err, s.recorder.close(ctx))
			s.recorder = nil
		}
	}
	return sums, err
}

// showCompared runs both sides and prints how they differ.
func showCompared(cmd *cobra.Command, sides [2]scenario.Config, web pageConfig, names []string, asJSON bool) error {
	files, err := createFiles(names)
	if err != nil {
		return err
	}
	progress := cmd.OutOrStdout()
	if asJSON {
		progress = cmd.ErrOrStderr()
	}
	var both [2]summary.Summary
	err = runCompared(cmd.Context(), sides, web, files, progress, func(sums [2]summary.Summary) error {
		both = sums
		if asJSON {
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetIndent("", "  ")
			return encoder.Encode(map[string]any{"sides": sums})
		}
		fmt.Fprintln(progress)
		return summary.WriteComparison(progress, sums)
	})
	if err != nil {
		return err
	}
	for _, s := range both {
		if err := verdict(s); err != nil {
			return err
		}
	}
	if both[0].Interrupted {
		return errInterrupted
	}
	return nil
}
