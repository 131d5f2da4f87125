package workload

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"padme/cmd/internal/recording"
)

// shortest is how long a scenario lasts at least: with few entries figures are rough.
const shortest = 10 * time.Minute

// Describe returns the scenario file of what was added, of a recording that has been read to
// its end. An error is a *LockError or wraps ErrTooFew.
func (w *Workload) Describe(s *recording.Summary) ([]byte, error) {
	if locks := w.lockNames(); !w.locks[w.lock] || !w.chosen && len(locks) > 1 {
		name := w.lock
		if !w.chosen {
			name = ""
		}
		return nil, &LockError{name, locks}
	}
	all := w.profiles(max(w.span(), time.Second))
	again := func(p *profile) bool { return p.seq > 1 }
	held := func(p *profile) bool { return p.cs != "" }
	switch {
	case !slices.ContainsFunc(all, again):
		return nil, fmt.Errorf("%w: nobody asked twice for lock %q", ErrTooFew, w.lock)
	case !slices.ContainsFunc(all, held):
		return nil, fmt.Errorf("%w: nobody asked for lock %q and released it", ErrTooFew, w.lock)
	}
	d := &description{Workload: w, recorded: s, all: all, root: entries{&yaml.Node{Kind: yaml.MappingNode}}}
	d.write()
	var b bytes.Buffer
	d.header(&b)
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(d.root.Node); err != nil {
		return nil, err
	}
	return b.Bytes(), e.Close()
}

// description is a scenario while it is written.
type description struct {
	*Workload
	recorded  *recording.Summary
	all       []*profile
	root      entries
	latency   string            // what that figure is made of
	listed    bool              // the resources are those that were asked for
	resourced []string          // the resources that it lists
	renamed   map[string]string // resources that a scenario cannot name as they are
}

// write makes the keys of the scenario. What most askers have in common is said once.
func (d *description) write() {
	d.resourceNames()
	common := d.common()
	if common.asksFor != "" && common.asksFor != d.everything() {
		d.root.list("asks-for", common.asksFor)
	}
	d.root.list("priorities", common.priority)
	if common.draws != "" {
		d.root.list("request-priorities", common.draws)
	}
	d.settings()
	d.messages()
	d.root.plain("cs", common.cs)
	d.root.plain(common.load, common.span)
	d.root.plain("duration", max(d.span().Round(time.Minute), shortest).String())
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, p := range d.all {
		list.Content = append(list.Content, d.differences(p, common).Node)
	}
	d.root.add("participants", list)
}

// differences is the entry of an asker: its name, and what is not as for most.
func (d *description) differences(p *profile, common *texts) entries {
	own, e := d.texts(p), entries{&yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}}
	e.text("id", p.id)
	if own.priority != common.priority {
		e.plain("priority", own.priority)
	}
	if own.draws != common.draws {
		e.list("request-priorities", own.draws)
	}
	if own.asksFor != common.asksFor && own.asksFor != "" {
		e.list("asks-for", own.asksFor)
	}
	if own.cs != common.cs && own.cs != "" {
		e.plain("cs", own.cs)
	}
	if own.load != common.load || own.span != common.span {
		e.plain(own.load, own.span)
	}
	return e
}

// entries is a mapping that grows.
type entries struct{ *yaml.Node }

func (e entries) add(key string, value *yaml.Node) {
	e.Content = append(e.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}

// plain adds a value that needs no quotes.
func (e entries) plain(key, value string) {
	e.add(key, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
}

// text adds a value in quotes if it needs them, as names do that could be anything.
func (e entries) text(key, value string) { e.add(key, textNode(value)) }

func textNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// list adds values that are separated by commas.
func (e entries) list(key, values string) {
	l := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for v := range strings.SplitSeq(values, ",") {
		n := textNode(v)
		if _, err := strconv.ParseInt(v, 10, 64); err == nil && key != "asks-for" && key != "resources" {
			n.Tag = "!!int"
		}
		l.Content = append(l.Content, n)
	}
	e.add(key, l)
}
