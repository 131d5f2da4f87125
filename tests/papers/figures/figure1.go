package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sla"
	"padme/tests/papers/bench"
)

var slaFigure1Topic = topic{
	name: "sla-figure-1", title: "SLA paper, Figure 1: the worked example",
	about: "One tree of twelve, five requests, three orders of service (SLA paper §III-A).",
	build: buildFigure1,
}

// panel is one picture of the figure, and the file whose scenario it is taken from.
type panel struct {
	letter, title, file string
	algorithm           protocol.Algorithm
	stated              string
}

var panels = []panel{
	{"b", "Kanrar-Chaki", "figure1b_kanrar_chaki", sla.KanrarChaki, "11 7 9 8 3 10 4 2"},
	{"c", "Level", "figure1c_level", sla.Level(2), "11 7 9 10 8 4 2 3"},
	{"d", "Level-Distance", "figure1d_level_distance", sla.LevelDistance(2), "7 11 9 10 8 2 4 3"},
}

const scenarios = "qosmutex/sla/testdata/priority"

func buildFigure1(p *page) error {
	p.text("**Assumed.** Node 1 has the token and is inside. Larger is more important here, as in the paper. Queues at the start: Q1 = 2(1), 3(0); Q2 = 4(1), 2(1) (for Level-Distance 2(1), 4(1)); Q3 = 3(0); Q4 = 4(1). *Request policy:* then 11(3), 10(3), 7(3), 8(2), 9(3) arrive, each settled before the next, and nobody asks again. c = 2. A number after the plus counts the more important requests that one has seen.")
	first, err := queues(panels[0].file, "request 4(1) 2(1) 3(0)")
	if err != nil {
		return err
	}
	trees := []tree{{title: "(a) at the start", queues: first}}
	var orders [][]string
	for _, f := range panels {
		q, err := queues(f.file, "request 9(3)")
		if err != nil {
			return err
		}
		order, err := bench.SLAFigureOrder(f.algorithm)
		if err != nil {
			return err
		}
		served := strings.ReplaceAll(strings.Join(order, " "), "n", "")
		trees = append(trees, tree{title: "(" + f.letter + ") " + f.title, queues: q, order: served})
		orders = append(orders, []string{f.title, f.stated, served})
	}
	p.picture("sla-figure-1", "the trees and their queues", drawTrees(trees))
	p.text("## The order of service")
	p.table([]string{"algorithm", "stated", "measured"}, orders)
	p.text("## The queues after the five requests")
	var rows [][]string
	for node := 1; node <= len(bench.SLAFigureParents); node++ {
		row := []string{fmt.Sprintf("Q%d", node)}
		for _, t := range trees {
			row = append(row, t.queues[node])
		}
		rows = append(rows, row)
	}
	p.table([]string{"", "(a)", "(b) Kanrar-Chaki", "(c) Level", "(d) Level-Distance"}, rows)
	p.text("The queues are those of the data-driven tests in [`" + scenarios + "`](../../" + scenarios + "), which hold the machines to them after each of the five requests; the orders are measured here, in the simulator.")
	p.text("## What the paper says, and where it differs\n\nNowhere: the three orders are the paper's, and so is what it says of the priorities after each step. At steps (1) and (2) of Level, n3's and n2's requests in Q1 become 3 at once, not by ageing: the neighbor asks again with 3, and one neighbor has one entry.")
	return nil
}

// queues reads what a scenario expects after a directive: the queue of each node.
func queues(name, directive string) (map[int]string, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, scenarios, name))
	if err != nil {
		return nil, err
	}
	_, after, ok := strings.Cut(string(text), "\n"+directive+"\n----\n")
	if !ok {
		return nil, fmt.Errorf("%s does not have %q", name, directive)
	}
	block, _, _ := strings.Cut(after, "\n\n")
	all := map[int]string{}
	for _, line := range strings.Split(block, "\n") {
		var node int
		if _, err := fmt.Sscanf(line, "Q%d =", &node); err == nil {
			_, queue, _ := strings.Cut(line, " = ")
			all[node] = queue
		}
	}
	return all, nil
}

// moduleRoot is the folder above this one that has the go.mod.
func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		above := filepath.Dir(folder)
		if above == folder {
			return "", fmt.Errorf("run this inside the module: %s has no go.mod above it", folder)
		}
		folder = above
	}
}
