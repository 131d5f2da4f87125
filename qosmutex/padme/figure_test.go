package padme

import (
	"fmt"
	"regexp"
	"strings"
)

// Sizes of a figure, in pixels.
const (
	figureLeaf   = 150
	figureLevel  = 92
	figureMargin = 34
	figureRadius = 17
	figureLine   = 15
)

// spot is where a participant stands: leaves side by side, others above the middle of
// their children.
type spot struct{ x, y int }

// spots places all participants.
func (w *world) spots() (at map[string]spot, width, height int) {
	at = map[string]spot{}
	leaves, depth := 0, 0
	var stand func(name string, level int) int
	stand = func(name string, level int) int {
		depth = max(depth, level)
		first, last := -1, -1
		for _, child := range w.order {
			if w.nodes[child].machine.Status().Parent.ID == name {
				last = stand(child, level+1)
				if first < 0 {
					first = last
				}
			}
		}
		x := (first + last) / 2
		if first < 0 {
			x = figureMargin + leaves*figureLeaf + figureLeaf/2
			leaves++
		}
		at[name] = spot{x, figureMargin + level*figureLevel}
		return x
	}
	stand(w.order[0], 0)
	return at, 2*figureMargin + leaves*figureLeaf, 2*figureMargin + depth*figureLevel
}

var sent = regexp.MustCompile(`^(\w)→(\w) (\w+)`)

// draw is a figure of the tree as it is: who is inside is filled, beside each stands
// its queue, and at each link the messages of the scene with their numbers.
func (w *world) draw(scene []string) string {
	at, width, height := w.spots()
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="13" fill="#222222">`+"\n", width, height, width)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#ffffff"/>`+"\n", width, height)
	for _, name := range w.order {
		if parent := w.nodes[name].machine.Status().Parent.ID; parent != "" {
			drawLink(&b, name, parent, at, scene)
		}
	}
	for _, name := range w.order {
		w.drawNode(&b, w.nodes[name], at[name])
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawLink has the messages between a child and its parent on the side that is free.
func drawLink(b *strings.Builder, child, parent string, at map[string]spot, scene []string) {
	from, to := at[child], at[parent]
	var words []string
	for i, line := range scene {
		m := sent.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[1] == child && m[2] == parent:
			words = append(words, fmt.Sprintf("%d ↑ %s", i+1, m[3]))
		case m[1] == parent && m[2] == child:
			words = append(words, fmt.Sprintf("%d ↓ %s", i+1, m[3]))
		}
	}
	stroke, thick := "#bbbbbb", 1
	if words != nil {
		stroke, thick = "#1f6f43", 2
	}
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="%d"/>`+"\n", from.x, from.y, to.x, to.y, stroke, thick)
	gap, anchor := -10, "end"
	if from.x > to.x {
		gap, anchor = 10, "start"
	}
	y := (from.y+to.y)/2 - (len(words)-1)*figureLine/2 + 4
	for i, word := range words {
		y := y + i*figureLine
		x := to.x + (from.x-to.x)*(y-5-to.y)/(from.y-to.y) + gap
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" fill="#1f6f43">%s</text>`+"\n", x, y, anchor, word)
	}
}

func (w *world) drawNode(b *strings.Builder, n *node, p spot) {
	fill, ink, queue := "#ffffff", "#222222", ""
	for _, r := range n.machine.Status().Resources {
		if r.Inside {
			fill, ink = "#1f3f66", "#ffffff"
		}
		for _, q := range r.Queue {
			queue += " " + q.ID.Node.ID
		}
	}
	fmt.Fprintf(b, `<circle cx="%d" cy="%d" r="%d" fill="%s" stroke="#222222"/>`+"\n", p.x, p.y, figureRadius, fill)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="%s" font-weight="bold">%s</text>`+"\n", p.x, p.y+5, ink, n.name)
	if queue != "" {
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="#8a4b00">queue:%s</text>`+"\n", p.x+figureRadius+6, p.y+5, queue)
	}
}
