package pubsub

import (
	"context"
	"errors"
	"strings"
	"sync"

	"padme/internal/wait"
	"padme/pubsub/internal/wire"
)

// maxEarlier bounds the values of earlier incarnations that a participant remembers.
const maxEarlier = 1 << 16

// earlier are the values that earlier incarnations of a participant have left with the
// broker, where it has a Transient writer. The name of a writer does not tell whose place it
// takes: it depends on what else its program makes. So whoever disposes of an instance clears
// what all writers of earlier incarnations have left of it; what writers of this one have
// written is theirs.
type earlier struct {
	turn wait.Turn // of the one who asks the broker

	mu    sync.Mutex
	known map[string]bool                // partitions of topics that the broker was asked for
	left  map[string]map[string]struct{} // by what the topic of an instance begins with: names of writers
	size  int                            // values left
	wrote map[string]struct{}            // topics written while the broker is asked; else nil
	over  int                            // values that were found then and are too many
}

func newEarlier() earlier {
	return earlier{turn: wait.NewTurn(), known: map[string]bool{}, left: map[string]map[string]struct{}{}}
}

// learnEarlier blocks until it is known what earlier incarnations have left in some
// partitions of a topic, which are given as levels, or ctx ends. Where this participant may
// not read, nothing is.
func (x *exchange) learnEarlier(ctx context.Context, partitions []string, topic string) error {
	e := &x.earlier
	if err := e.turn.Take(ctx); err != nil {
		return err
	}
	defer e.turn.Give()
	for _, partition := range partitions {
		place := "data/" + partition + "/" + topic + "/"
		if !e.begin(place) {
			continue
		}
		err := x.askEarlier(ctx, place)
		if errors.Is(err, ErrRefused) {
			x.p.log.Warn("values of earlier incarnations cannot be read, and so not be disposed of: allow to read samples in the broker's access rules", "topics", place+"#", "error", err)
			err = nil
		}
		if over := e.end(place, err == nil); over > 0 {
			x.p.log.Warn("earlier incarnations have left more values than are remembered: Dispose may leave the others", "topics", place+"#", "remembered", maxEarlier, "others", over)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) askEarlier(ctx context.Context, place string) error {
	filter := x.p.root + "/" + place + "+/" + x.p.level + "/+"
	stop, err := x.p.subscribe(ctx, x.data, filter, func(topic string, payload []byte, retained bool) {
		var sample wire.Envelope
		if retained && wire.Parse(payload, &sample) == nil && sample.Epoch != x.p.incarnation {
			x.earlier.found(x.p.root + "/" + topic)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	return x.samplesCame(ctx)
}

// begin reports whether the broker is to be asked.
func (e *earlier) begin(place string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known[place] {
		return false
	}
	e.wrote, e.over = map[string]struct{}{}, 0
	return true
}

// end returns how many values there were too many.
func (e *earlier) end(place string, known bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrote, e.known[place] = nil, known
	return e.over
}

// found notes a value, unless it has been replaced since it was sent.
func (e *earlier) found(topic string) {
	at := strings.LastIndexByte(topic, '/') + 1
	instance, name := topic[:at], topic[at:]
	e.mu.Lock()
	defer e.mu.Unlock()
	_, replaced := e.wrote[topic]
	_, known := e.left[instance][name]
	if replaced || known || e.wrote == nil {
		return
	}
	if e.size >= maxEarlier {
		e.over++
		return
	}
	if e.left[instance] == nil {
		e.left[instance] = map[string]struct{}{}
	}
	e.left[instance][name] = struct{}{}
	e.size++
}

// of are the names of the writers that have left a value of an instance.
func (e *earlier) of(instance string) (names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.left[instance] {
		names = append(names, name)
	}
	return names
}

// replace has a writer of this incarnation put a value where one may have been left. put
// must not block.
func (e *earlier) replace(instance, name string, put func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wrote != nil {
		e.wrote[instance+name] = struct{}{}
	}
	e.forget(instance, name)
	return put()
}

func (e *earlier) forget(instance, name string) {
	if _, was := e.left[instance][name]; !was {
		return
	}
	e.size--
	if delete(e.left[instance], name); len(e.left[instance]) == 0 {
		delete(e.left, instance)
	}
}

// clear has put clear a value unless it was replaced. put must not block.
func (e *earlier) clear(instance, name string, put func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, there := e.left[instance][name]; !there {
		return nil
	}
	return put()
}

// cleared forgets a value that the broker does not have any more.
func (e *earlier) cleared(instance, name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget(instance, name)
}
