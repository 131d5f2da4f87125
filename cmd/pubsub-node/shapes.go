package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/pubsub/filter"
)

// shape is what the programs of the interoperability suite for DDS draw.
type shape struct {
	Color string `json:"color" msgpack:"color" pubsub:"key"`
	X     int32  `json:"x" msgpack:"x"`
	Y     int32  `json:"y" msgpack:"y"`
	Size  int32  `json:"shapesize" msgpack:"shapesize"`
}

// The canvas, in pixels.
const (
	canvasWidth  = 240
	canvasHeight = 270
)

// shapeFlags are the flags of `pubsub-node shapes pub|sub`, by the names that they have
// in the suite.
type shapeFlags struct {
	domain, topic, color, partition, durability string
	representation, filter, ending              string
	reliable, bestEffort, ordered, coherent     bool
	echo, json                                  bool
	depth, strength, size, instances            int
	iterations                                  int
	deadline, timeFilter, lifespan, period      int // in ms
}

func newShapes(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shapes",
		Short: "Draw the shapes of the DDS interoperability suite",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newShapesPub(s), newShapesSub(s))
	return cmd
}

func (f *shapeFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVarP(&f.domain, "domain-id", "d", "", "`domain`, as --domain")
	fs.StringVarP(&f.topic, "topic", "t", "Square", "`name` of the topic")
	fs.StringVarP(&f.color, "color", "c", "", "`color`: the key of the instance (pub: BLUE; sub: all)")
	fs.StringVarP(&f.partition, "partition", "p", "", "`name` or pattern of the partition")
	fs.IntVarP(&f.depth, "depth", "k", 1, "`samples` of history for each instance; 0 keeps all")
	fs.BoolVarP(&f.reliable, "reliable", "r", false, "reliable (default)")
	fs.BoolVarP(&f.bestEffort, "best-effort", "b", false, "best effort")
	fs.StringVarP(&f.durability, "durability", "D", "v", "`kind`: v volatile, l transient-local, t transient")
	fs.StringVarP(&f.representation, "data-representation", "x", "msgpack", "`codec`: msgpack or json")
	fs.IntVarP(&f.deadline, "deadline", "f", 0, "`ms` between two samples of an instance at most")
	fs.IntVarP(&f.strength, "ownership-strength", "s", -1, "`number`: exclusive ownership and its strength; -1 is shared")
	fs.BoolVar(&f.ordered, "ordered", false, "ordered access: not supported")
	fs.BoolVar(&f.coherent, "coherent", false, "coherent access: not supported")
	fs.IntVarP(&f.iterations, "num-iterations", "n", 0, "`number` of samples, of writes or of what is read (default: until interrupted)")
	fs.BoolVar(&f.json, "json", false, "one JSON object per line")
}

const shapeCodes = `

Exit codes: 2 a policy that there is not, and those of "pubsub-node lock --help".`

func newShapesPub(s *session) *cobra.Command {
	f := &shapeFlags{}
	cmd := &cobra.Command{
		Use:   "pub",
		Short: "Publish moving shapes",
		Long: `pub publishes shapes that move about, with the flags of the suite's shape_main -P. With
-w it prints each one.` + shapeCodes,
		Example: "  pubsub-node shapes pub -t Circle -c RED -r -D l -k 5\n  pubsub-node shapes pub -s 10 -f 500 --lifespan 1000 -w",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.start(cmd, s, func(ctx context.Context, p *pubsub.Participant, q pubsub.QoS) error {
				return f.publish(ctx, s, p, q, stream(cmd))
			})
		},
	}
	f.add(cmd)
	fs := cmd.Flags()
	fs.IntVar(&f.lifespan, "lifespan", 0, "`ms` after which a sample is of no use")
	fs.IntVar(&f.period, "write-period", 33, "`ms` between two writes")
	fs.IntVarP(&f.size, "shapesize", "z", 20, "`pixels`; 0 grows with each sample")
	fs.IntVar(&f.instances, "num-instances", 1, "`number` of instances: COLOR, COLOR1, COLOR2, …")
	fs.BoolVarP(&f.echo, "print-writer-samples", "w", false, "print what is written")
	fs.StringVar(&f.ending, "final-instance-state", "", "in the end u unregisters, d disposes the instances")
	return cmd
}

func newShapesSub(s *session) *cobra.Command {
	f := &shapeFlags{}
	cmd := &cobra.Command{
		Use:   "sub",
		Short: "Print moving shapes",
		Long: `sub prints the topic, color, position and size of shapes as they come, with the flags
of the suite's shape_main -S. What else happens it tells on standard error.` + shapeCodes,
		Example: "  pubsub-node shapes sub -t Circle -r -D l\n  pubsub-node shapes sub -c BLUE -i 1000",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.start(cmd, s, func(ctx context.Context, p *pubsub.Participant, q pubsub.QoS) error {
				return f.subscribe(ctx, s, p, q, stream(cmd))
			})
		},
	}
	f.add(cmd)
	fs := cmd.Flags()
	fs.IntVarP(&f.timeFilter, "time-filter", "i", 0, "`ms` between two samples of an instance at least")
	fs.StringVar(&f.filter, "cft", "", "`expression` over color, x, y and shapesize")
	return cmd
}

// start joins the domain for one of the two.
func (f *shapeFlags) start(cmd *cobra.Command, s *session, run func(context.Context, *pubsub.Participant, pubsub.QoS) error) error {
	q, err := f.qos()
	if err != nil {
		return err
	}
	if f.domain != "" {
		s.domain = f.domain
	}
	return s.whileJoined(cmd.Context(), s.join, func(ctx context.Context, p *pubsub.Participant) error {
		err := run(ctx, p, q)
		if ctx.Err() != nil {
			return endOfStream(ctx)
		}
		return err
	})
}

func (f *shapeFlags) qos() (pubsub.QoS, error) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	q := pubsub.QoS{
		Reliability: pubsub.Reliable, Depth: f.depth, Deadline: ms(f.deadline), Lifespan: ms(f.lifespan), TimeBasedFilter: ms(f.timeFilter),
		OrderedAccess: f.ordered, CoherentAccess: f.coherent,
	}
	kinds := map[string]pubsub.Durability{"v": pubsub.Volatile, "l": pubsub.TransientLocal, "t": pubsub.Transient, "p": pubsub.Persistent}
	kind, known := kinds[f.durability]
	switch {
	case !known:
		return q, usageError("-D %q: choose v, l or t", f.durability)
	case f.ordered || f.coherent || kind == pubsub.Persistent:
		return q, usageError("--ordered, --coherent and -D p are not supported")
	case f.reliable && f.bestEffort:
		return q, usageError("-r and -b contradict each other: give one of them")
	case f.strength < -1 || f.iterations < 0 || f.instances < 0 || f.period < 0 || f.depth < 0:
		return q, usageError("a number is negative")
	case f.ending != "" && f.ending != "u" && f.ending != "d":
		return q, usageError("--final-instance-state %q: choose u or d", f.ending)
	case f.representation != string(pubsub.Msgpack) && f.representation != string(pubsub.JSON):
		return q, usageError("-x %q: choose msgpack or json", f.representation)
	case f.color != "" && f.filter != "":
		return q, usageError("-c and --cft contradict each other: give one of them")
	}
	q.Durability = kind
	if f.bestEffort {
		q.Reliability = pubsub.BestEffort
	}
	if f.depth == 0 {
		q.History = pubsub.KeepAll
	}
	if f.partition != "" {
		q.Partition = []string{f.partition}
	}
	q.Exclusive = f.strength >= 0
	return q, nil
}

func (f *shapeFlags) topicOf(p *pubsub.Participant) (*pubsub.Topic[shape], error) {
	return pubsub.NewTopic[shape](p, f.topic, pubsub.WithCodec(pubsub.Codec(f.representation)))
}

func (f *shapeFlags) publish(ctx context.Context, s *session, p *pubsub.Participant, q pubsub.QoS, out io.Writer) error {
	topic, err := f.topicOf(p)
	if err != nil {
		return err
	}
	q.Strength = max(f.strength, 0)
	setup, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	w, err := pubsub.NewWriter(setup, topic, pubsub.WithQoS(q))
	if err != nil {
		return err
	}
	err = f.draw(ctx, w, out)
	if ctx.Err() != nil || err == nil {
		err = f.end(s, w)
	}
	return err
}

// draw moves the shapes and writes them until it has done so often enough or ctx ends.
func (f *shapeFlags) draw(ctx context.Context, w *pubsub.Writer[shape], out io.Writer) error {
	shapes := f.shapes()
	dx, dy := 1+rand.Int32N(5), 1+rand.Int32N(5)
	due := time.NewTicker(max(time.Duration(f.period)*time.Millisecond, time.Microsecond))
	defer due.Stop()
	for n := 0; f.iterations == 0 || n < f.iterations; n++ {
		for i := range shapes {
			v := &shapes[i]
			v.X, v.Y = (v.X+dx)%canvasWidth, (v.Y+dy)%canvasHeight
			if f.size == 0 {
				v.Size++
			}
			if err := w.Write(ctx, *v); err != nil && !errors.Is(err, pubsub.ErrOffline) {
				return err
			}
			if f.echo {
				if err := f.write(out, *v); err != nil {
					return err
				}
			}
		}
		select {
		case <-due.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (f *shapeFlags) shapes() (all []shape) {
	color := f.color
	if color == "" {
		color = "BLUE"
	}
	for i := range f.instances {
		name := color
		if i > 0 {
			name = fmt.Sprint(color, i)
		}
		all = append(all, shape{name, rand.Int32N(canvasWidth), rand.Int32N(canvasHeight), int32(f.size)})
	}
	return all
}

// end ends the instances as --final-instance-state says, and waits for readers.
func (f *shapeFlags) end(s *session, w *pubsub.Writer[shape]) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	for _, v := range f.shapes() {
		var err error
		switch f.ending {
		case "u":
			err = w.Unregister(ctx, v)
		case "d":
			err = w.Dispose(ctx, v)
		}
		if err != nil {
			return err
		}
	}
	return w.WaitAcked(ctx)
}

func (f *shapeFlags) subscribe(ctx context.Context, s *session, p *pubsub.Participant, q pubsub.QoS, out io.Writer) error {
	topic, err := f.topicOf(p)
	if err != nil {
		return err
	}
	opts := []pubsub.EndpointOption{pubsub.WithQoS(q)}
	switch {
	case f.color != "":
		opts = append(opts, pubsub.WithInstance(shape{Color: f.color}))
	case f.filter != "":
		x, err := filter.Parse(f.filter)
		if err != nil {
			return err
		}
		opts = append(opts, pubsub.WithExpression(x))
	}
	setup, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := pubsub.NewReader(setup, topic, opts...)
	if err != nil {
		return err
	}
	defer r.Close()
	telling, stop := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		tellShapes(telling, r, f.topic)
	}()
	defer func() { stop(); <-told }()
	seen := 0
	for sample, err := range r.Samples(ctx) {
		if err == nil && sample.Info.Valid {
			seen++
			err = f.write(out, sample.Data)
		} else if err == nil && !f.json {
			_, err = fmt.Fprintf(out, "%-10s %-10s %s\n", printable(f.topic), printable(sample.Info.Key), stateNames[sample.Info.State])
		}
		if err != nil || f.iterations > 0 && seen == f.iterations {
			return err
		}
	}
	return ctx.Err()
}

func (f *shapeFlags) write(out io.Writer, v shape) error {
	if f.json {
		return writeJSON(out, []shape{v})
	}
	_, err := fmt.Fprintf(out, "%-10s %-10s %03d %03d [%d]\n", printable(f.topic), printable(v.Color), v.X, v.Y, v.Size)
	return err
}
