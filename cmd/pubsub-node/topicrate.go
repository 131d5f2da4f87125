package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"padme/pubsub"
)

// measure is what hz, bw or delay does with the last samples.
type measure struct {
	name, short, long, example string
	least                      int  // samples needed to tell anything
	copies                     bool // the copies for other partitions count too
	report                     func([]observation) rateLine
	text                       func(rateLine) string
}

type observation struct {
	at, written time.Time
	size        int
}

// rateLine is the line of `topic hz|bw|delay --json`. Times are in seconds, sizes in
// bytes.
type rateLine struct {
	Topic   string  `json:"topic"`
	Samples int     `json:"samples"` // in all
	Window  int     `json:"window"`  // of them measured
	Rate    float64 `json:"rate,omitempty"`
	Mean    float64 `json:"mean"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	StdDev  float64 `json:"stddev"`
}

func hertz() measure {
	return measure{
		name: "hz", short: "Measure how often a topic is written", least: 2,
		long:    "hz prints how many samples of TOPIC come in a second, and the times between them.",
		example: "  pubsub-node topic hz weather\n  pubsub-node topic hz weather --count 100 --json | jq .rate",
		report: func(seen []observation) rateLine {
			var gaps []float64
			for i, o := range seen[1:] {
				gaps = append(gaps, o.at.Sub(seen[i].at).Seconds())
			}
			l := statistics(gaps)
			l.Rate = 1 / math.Max(l.Mean, 1e-9)
			return l
		},
		text: func(l rateLine) string { return fmt.Sprintf("rate %.2f Hz  between %s", l.Rate, times(l)) },
	}
}

func bandwidth() measure {
	return measure{
		name: "bw", short: "Measure how many bytes are written to a topic", least: 2, copies: true,
		long:    "bw prints how many bytes of TOPIC the broker delivers in a second to one subscriber,\nas MQTT payloads, and the sizes of samples.",
		example: "  pubsub-node topic bw camera\n  pubsub-node topic bw camera --count 100 --json | jq .rate",
		report: func(seen []observation) rateLine {
			var sizes []float64
			total := 0.0
			for _, o := range seen {
				sizes = append(sizes, float64(o.size))
				total += float64(o.size)
			}
			l := statistics(sizes)
			took := seen[len(seen)-1].at.Sub(seen[0].at).Seconds()
			l.Rate = (total - sizes[0]) / math.Max(took, 1e-9) // the first was written before it began
			return l
		},
		text: func(l rateLine) string {
			return fmt.Sprintf("rate %s/s  mean %s  min %s  max %s", bytesText(l.Rate), bytesText(l.Mean), bytesText(l.Min), bytesText(l.Max))
		},
	}
}

func delay() measure {
	return measure{
		name: "delay", short: "Measure how long samples of a topic take", least: 1,
		long:    "delay prints how long samples of TOPIC take from their writer to here, by the clocks\nof both: if those differ, so much is the result wrong. It may be negative.",
		example: "  pubsub-node topic delay weather --window 1000\n  pubsub-node topic delay weather --count 100 --json | jq .max",
		report: func(seen []observation) rateLine {
			var delays []float64
			for _, o := range seen {
				delays = append(delays, o.at.Sub(o.written).Seconds())
			}
			return statistics(delays)
		},
		text: func(l rateLine) string { return "delay " + times(l) },
	}
}

func statistics(values []float64) (l rateLine) {
	l.Min, l.Max = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		l.Mean += v / float64(len(values))
		l.Min, l.Max = math.Min(l.Min, v), math.Max(l.Max, v)
	}
	for _, v := range values {
		l.StdDev += (v - l.Mean) * (v - l.Mean) / float64(len(values))
	}
	l.StdDev = math.Sqrt(l.StdDev)
	return l
}

func times(l rateLine) string {
	text := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)).Round(time.Microsecond) }
	return fmt.Sprintf("mean %v  min %v  max %v  stddev %v", text(l.Mean), text(l.Min), text(l.Max), text(l.StdDev))
}

func bytesText(n float64) string {
	for _, unit := range []string{"B", "kB", "MB"} {
		if n < 1000 {
			return fmt.Sprintf("%.4g %s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.4g GB", n)
}

// rateFlags are the flags of `pubsub-node topic hz|bw|delay`.
type rateFlags struct {
	window, count int
	json          bool
}

func newTopicRate(s *session, m measure) *cobra.Command {
	f := &rateFlags{}
	cmd := &cobra.Command{
		Use:   m.name + " TOPIC",
		Short: m.short,
		Long: m.long + `

It measures the last --window samples of any type, in every partition, as they pass
the broker. On a terminal it prints a line every second, otherwise one at the end,
after --count samples or INT.

Exit codes: 1 too few samples came, and those of "pubsub-node lock --help".`,
		Example: m.example,
		Args:    argCount(1, 1, "TOPIC"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.window < 2 || f.window > 1e6 {
				return usageError("--window %d is not between 2 and 1000000", f.window)
			}
			if cmd.Flags().Changed("count") && f.count < m.least {
				return usageError("--count %d is below %d", f.count, m.least)
			}
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return f.run(ctx, s, m, args[0], cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.IntVar(&f.window, "window", 10000, "`number` of the last samples that are measured")
	fs.IntVar(&f.count, "count", 0, "end after this `number` of samples (default: when interrupted)")
	fs.BoolVar(&f.json, "json", false, "lines are JSON objects")
	return cmd
}

func (f *rateFlags) run(ctx context.Context, s *session, m measure, topic string, out io.Writer) error {
	p, err := s.joinToRead(ctx)
	if err != nil {
		return err
	}
	defer leave(p)
	running := term.IsTerminal(int(os.Stdout.Fd()))
	var seen []observation
	total, told := 0, time.Now()
	last := map[pubsub.GUID]uint64{}
	for o, err := range observe(ctx, s, p, topic) {
		if err != nil {
			return err
		}
		if o.Retained || !m.copies && o.Sequence <= last[o.Writer] {
			continue
		}
		last[o.Writer] = o.Sequence
		if len(seen) == f.window {
			seen = seen[1:]
		}
		seen = append(seen, observation{o.ReceiveTime, o.SourceTime, o.Size})
		total++
		if total == f.count {
			break
		}
		if running && time.Since(told) >= time.Second && len(seen) >= m.least {
			told = time.Now()
			if err := f.write(out, m, topic, seen, total); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		if err := endOfStream(ctx); err != nil {
			return err
		}
	}
	if len(seen) < m.least {
		return fmt.Errorf("%d samples of topic %q came: too few to measure", len(seen), topic)
	}
	return f.write(out, m, topic, seen, total)
}

func (f *rateFlags) write(out io.Writer, m measure, topic string, seen []observation, total int) error {
	l := m.report(seen)
	l.Topic, l.Samples, l.Window = topic, total, len(seen)
	if f.json {
		return writeJSON(out, []rateLine{l})
	}
	_, err := fmt.Fprintf(out, "%s  window %d\n", m.text(l), l.Window)
	return err
}
