package main

import "strings"

// index is the README of the results.
func index() string {
	var b strings.Builder
	b.WriteString(`# Results

The figures and tables of the papers, measured with the code in this repository, side by side with what the papers state. Everything here is made by ` + "`make papers`" + ` and not edited by hand; a test (` + "`go test ./tests/papers/figures`" + `) fails when a figure no longer comes out as it stands here. Time is simulated, so the numbers are the same on every machine.

| page | what it shows | command |
|---|---|---|
`)
	for _, t := range topics {
		b.WriteString("| [" + t.title + "](" + t.name + ".md) | " + t.about + " | `go run ./tests/papers/figures -only " + t.name + "` |\n")
	}
	b.WriteString(`
## How to read them

- *Stated* is a number in the text of a paper. Where a paper has only a plot whose numbers its text does not repeat, there is none.
- *Worked out* is a number that follows from a paper's rules and was found with a simulation that shares no code with this repository.
- Experiments with chance in them are run with ten seeds; "±" is the standard deviation of the seeds.
- A priority inversion is counted both ways: a *victim* is an entry whose request was overtaken by a less important one (this is what the SLA paper calls a violation), an *overtaker* is an entry that overtook a more important request.
- Who asks when decides many of these results. It stands beside every table.

## Single runs

` + "`pubsub-node sim`" + ` runs one scenario of one's own, with any of the algorithms: ` + "`pubsub-node sim --help`" + `. The entries of the PADME table are its defaults, on the papers' tree:

` + "```sh" + `
go run ./cmd/pubsub-node sim --tree static --models fair-forward-use-use --latency 1s --think 1s
go run ./cmd/pubsub-node sim --tree static --models level-replace-forward-use --latency 500ms --think 500ms --json
` + "```" + `

What ` + "`--json`" + ` prints, ` + "`cmd/pubsub-node/simplot`" + ` draws, as SVG or PNG: the entries of each participant, and of several runs those of each priority, side by side:

` + "```sh" + `
go run ./cmd/pubsub-node sim --compare all-models --json | go run ./cmd/pubsub-node/simplot entries.svg
` + "```" + `
`)
	return b.String()
}
