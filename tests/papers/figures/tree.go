package main

import (
	"fmt"
	"strings"

	"padme/tests/papers/bench"
)

// tree is one picture of Figure 1: the nodes, and the queue of each that has one.
type tree struct {
	title, order string
	queues       map[int]string
}

// Sizes of a picture, in pixels.
const (
	leafWidth   = 104
	levelHeight = 58
	treeMargin  = 30
	nodeRadius  = 11
)

// place is where a node stands: leaves side by side, others above the middle of their
// children.
type place struct{ x, y float64 }

func places() (at map[int]place, leaves, depth int) {
	at = map[int]place{}
	var stand func(node, level int) float64
	stand = func(node, level int) float64 {
		depth = max(depth, level)
		var sum, n float64
		for i, parent := range bench.SLAFigureParents {
			if parent == node {
				sum += stand(i+1, level+1)
				n++
			}
		}
		x := float64(leaves)
		if n > 0 {
			x = sum / n
		} else {
			leaves++
		}
		at[node] = place{treeMargin + (x+0.5)*leafWidth, treeMargin + 28 + float64(level)*levelHeight}
		return x
	}
	stand(1, 0)
	return at, leaves, depth
}

// drawTrees puts the pictures two side by side.
func drawTrees(trees []tree) []byte {
	at, leaves, depth := places()
	width := leaves*leafWidth + 2*treeMargin
	height := (depth+1)*levelHeight + 2*treeMargin + 28
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="12" fill="#222222" text-anchor="middle">`+"\n",
		2*width, (len(trees)+1)/2*height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", 2*width, (len(trees)+1)/2*height)
	for i, t := range trees {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", i%2*width, i/2*height)
		t.draw(&b, at, width, height)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func (t *tree) draw(b *strings.Builder, at map[int]place, width, height int) {
	text := func(x, y float64, style, s string) {
		fmt.Fprintf(b, `<text x="%.0f" y="%.0f"%s>%s</text>`+"\n", x, y, style, s)
	}
	text(float64(width)/2, treeMargin, ` font-weight="bold" font-size="14"`, t.title)
	for i, parent := range bench.SLAFigureParents {
		if from, to := at[i+1], at[parent]; parent > 0 {
			fmt.Fprintf(b, `<line x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f" stroke="#999999"/>`+"\n", from.x, from.y, to.x, to.y)
		}
	}
	for node := 1; node <= len(bench.SLAFigureParents); node++ {
		p := at[node]
		fill, ink := "#ffffff", ""
		if node == 1 { // has the token
			fill, ink = "#1f3f66", ` fill="#ffffff"`
		}
		fmt.Fprintf(b, `<circle cx="%.0f" cy="%.0f" r="%d" fill="%s" stroke="#222222"/>`+"\n", p.x, p.y, nodeRadius, fill)
		text(p.x, p.y+4, ink, fmt.Sprint(node))
		if q := t.queues[node]; q != "" {
			// A white edge keeps the queue legible where a link crosses it.
			text(p.x, p.y+nodeRadius+13, ` font-size="10" stroke="#ffffff" stroke-width="4" paint-order="stroke"`, q)
		}
	}
	if t.order != "" {
		text(float64(width)/2, float64(height)-treeMargin/2, "", "served: "+t.order)
	}
}
