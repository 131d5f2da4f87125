package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"padme/pubsub"
	"padme/qosmutex"
)

func newGraph(s *session) *cobra.Command {
	format := "dot"
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Draw participants, topics and locks",
		Long: `graph prints a drawing of the domain for Graphviz or Mermaid: who writes and reads which
topic, and who holds or waits for which lock, as the roots last said.

Exit codes: those of "pubsub-node lock --help".`,
		Example: `  pubsub-node graph | dot -Tsvg > domain.svg
  pubsub-node graph --format mermaid`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			write := map[string]func(io.Writer, []edge) error{"dot": writeDOT, "mermaid": writeMermaid}[format]
			if write == nil {
				return usageError("--format %q: choose dot or mermaid", format)
			}
			edges, err := s.edges(cmd.Context())
			if err != nil {
				return err
			}
			return write(cmd.OutOrStdout(), edges)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "`language` of the drawing: dot or mermaid")
	return cmd
}

// A vertex is a participant, a topic or a resource of a lock.
type vertex struct{ kind, name string }

// edge leads from who gives to who gets; a vertex that has none leads to itself, without
// a label.
type edge struct {
	from, to vertex
	label    string
	waits    bool
}

func (s *session) edges(ctx context.Context) ([]edge, error) {
	known, endpoints, err := look(ctx, s, "")
	if err != nil {
		return nil, err
	}
	ctx, sigs := watchSignals(ctx)
	defer sigs.stop()
	p, err := s.joinToRead(ctx)
	if err != nil {
		return nil, err
	}
	defer leave(p)
	states, err := lockStates(ctx, s.reading(p), p, "")
	if err != nil {
		return nil, err
	}
	return edgesOf(known, endpoints, states), nil
}

func edgesOf(known map[string]pubsub.Presence, endpoints []pubsub.Announcement, states []qosmutex.State) (edges []edge) {
	for id, pr := range known {
		if v := (vertex{"participant", id}); pr.Alive {
			edges = append(edges, edge{from: v, to: v})
		}
	}
	for _, e := range endpoints {
		who, topic := vertex{"participant", e.GUID.Participant}, vertex{"topic", e.Topic}
		if e.Kind == "writer" {
			edges = append(edges, edge{from: who, to: topic})
		} else {
			edges = append(edges, edge{from: topic, to: who})
		}
	}
	for _, st := range states {
		lock := vertex{"lock", st.Topic + "/" + st.Resource}
		edges = append(edges, edge{from: lock, to: lock})
		if st.Holder != "" {
			participant, client := behind(st.Holder, st.Via)
			edges = append(edges, edge{lock, participant, "held" + client, false})
		}
		for i, w := range st.Queue {
			participant, client := behind(w.Participant, w.Via)
			edges = append(edges, edge{participant, lock, fmt.Sprintf("waits %d%s", i+1, client), true})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return slices.Compact(edges) // two writers of one participant are one line
}

// behind is the participant of a holder or waiter, and for which client, as a label goes on.
func behind(name, via string) (v vertex, client string) {
	if via == "" {
		return vertex{"participant", name}, ""
	}
	return vertex{"participant", via}, " for " + name
}

// vertices are those of the edges, sorted.
func vertices(edges []edge) []vertex {
	var all []vertex
	for _, e := range edges {
		all = append(all, e.from, e.to)
	}
	slices.SortFunc(all, func(a, b vertex) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
	return slices.Compact(all)
}

func writeDOT(w io.Writer, edges []edge) error {
	quote := func(s string) string {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(printable(s)) + `"`
	}
	name := func(v vertex) string { return quote(v.kind + " " + v.name) }
	shapes := map[string]string{"participant": "box", "topic": "ellipse", "lock": "hexagon"}
	var b strings.Builder
	b.WriteString("digraph domain {\n\trankdir=LR\n")
	for _, v := range vertices(edges) {
		fmt.Fprintf(&b, "\t%s [shape=%s label=%s]\n", name(v), shapes[v.kind], quote(v.name))
	}
	for _, e := range edges {
		var style []string
		if e.label != "" {
			style = append(style, "label="+quote(e.label))
		}
		if e.waits {
			style = append(style, "style=dashed")
		}
		attributes := ""
		if len(style) > 0 {
			attributes = " [" + strings.Join(style, " ") + "]"
		}
		if e.from != e.to {
			fmt.Fprintf(&b, "\t%s -> %s%s\n", name(e.from), name(e.to), attributes)
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func writeMermaid(w io.Writer, edges []edge) error {
	all := vertices(edges)
	name := func(v vertex) string { return fmt.Sprintf("v%d", slices.Index(all, v)) }
	// Within quotes Mermaid still reads markup, so everything else is an entity.
	text := func(s string) string {
		return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;").Replace(printable(s))
	}
	shapes := map[string]string{"participant": `["%s"]`, "topic": `(["%s"])`, "lock": `{{"%s"}}`}
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	for _, v := range all {
		fmt.Fprintf(&b, "\t%s"+shapes[v.kind]+"\n", name(v), text(v.name))
	}
	for _, e := range edges {
		arrow := "-->"
		if e.waits {
			arrow = "-.->"
		}
		if e.label != "" {
			arrow += `|"` + text(e.label) + `"|`
		}
		if e.from != e.to {
			fmt.Fprintf(&b, "\t%s %s %s\n", name(e.from), arrow, name(e.to))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
