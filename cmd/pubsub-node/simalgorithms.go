package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"padme/qosmutex/classic"
	"padme/qosmutex/papers"
	"padme/qosmutex/protocol"
)

// padmeName is the algorithm that models are for.
const padmeName = "padme"

// contender is an algorithm, and for PADME its models.
type contender struct {
	algorithm protocol.Algorithm
	models    protocol.Models
}

// String is the form of --compare.
func (c *contender) String() string {
	if !c.hasModels() {
		return c.algorithm.Name
	}
	return c.algorithm.Name + ":" + c.models.String()
}

func (c *contender) hasModels() bool { return c.algorithm.Name == padmeName }

// short names models by their initials, to fit a table.
func (c *contender) short() string {
	if !c.hasModels() {
		return c.algorithm.Name
	}
	var initials strings.Builder
	for word := range strings.SplitSeq(c.models.String(), "-") {
		initials.WriteString(strings.ToUpper(word[:1]))
	}
	return c.algorithm.Name + ":" + initials.String()
}

// overlaps reports whether the algorithm is there to be seen failing: two may be
// inside at once, which is counted instead of ending the run.
func (c *contender) overlaps() bool { return c.algorithm.Name == classic.VotingForgetful.Name }

// algorithmNamed finds an algorithm for the command line.
func algorithmNamed(name string) (protocol.Algorithm, error) {
	a, err := papers.AlgorithmNamed(name)
	if err != nil {
		return a, fmt.Errorf("no algorithm is named %q%s: \"pubsub-node sim --algorithm list\" names them", name, didYouMean(name, algorithmNames()))
	}
	return a, nil
}

func algorithmNames() []string {
	var names []string
	for _, a := range papers.Algorithms() {
		names = append(names, a.Name)
	}
	return names
}

// modelsNamed reads a combination of models.
func modelsNamed(text string) (protocol.Models, error) {
	m, err := protocol.ParseModels(text)
	if err != nil {
		return m, fmt.Errorf("models %q%s: want four words, %s for Priority-Request-Reply-Release, or their initials, such as FRUU", text, didYouMean(strings.ToLower(text), modelNames()), protocol.ModelsForm())
	}
	return m, nil
}

// modelNames lists every combination.
func modelNames() []string {
	var names []string
	for _, m := range protocol.Combinations() {
		names = append(names, m.String())
	}
	return names
}

// contenders reads --compare.
func contenders(list string, models protocol.Models) ([]contender, error) {
	var all []contender
	add := func(c contender) {
		if !slices.ContainsFunc(all, func(o contender) bool { return o.String() == c.String() }) {
			all = append(all, c)
		}
	}
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		name, combination, found := strings.Cut(item, ":")
		switch {
		case item == "":
			return nil, usageError("--compare %q has an empty name: give algorithms, padme:MODELS, all-models or all", list)
		case item == "all":
			for _, a := range papers.Algorithms() {
				add(contender{a, models})
			}
			continue
		case item == "all-models":
			a, err := algorithmNamed(padmeName)
			if err != nil {
				return nil, err
			}
			for _, m := range protocol.AllModels() {
				add(contender{a, m})
			}
			continue
		}
		a, err := algorithmNamed(name)
		if err != nil {
			return nil, usageError("--compare: %w", err)
		}
		c := contender{a, models}
		if found {
			if !c.hasModels() {
				return nil, usageError("--compare %s: models are PADME's: write %s alone, or padme:%s", item, name, combination)
			}
			if c.models, err = modelsNamed(combination); err != nil {
				return nil, usageError("--compare: %w", err)
			}
		}
		add(c)
	}
	return all, nil
}

// listed is an algorithm for --algorithm list --json.
type listed struct {
	Name     string `json:"name"`
	Messages string `json:"messages"`
	Delay    string `json:"delay"`
	Source   string `json:"source"`
	Assumes  string `json:"assumes"`
	Crash    string `json:"crash"`
}

// listAlgorithms prints what --algorithm takes.
func listAlgorithms(w io.Writer, asJSON bool) error {
	var all []listed
	for _, a := range papers.Algorithms() {
		all = append(all, listed{a.Name, a.Messages, a.Delay, a.Source, a.Assumes, a.Crash})
	}
	if asJSON {
		return writeJSON(w, all)
	}
	var rows [][]string
	for _, a := range all {
		rows = append(rows, []string{a.Name, cmp.Or(a.Messages, "-"), cmp.Or(a.Delay, "-"), a.Source})
	}
	return writeWrapped(w, []string{"NAME", "MESSAGES PER ENTRY", "DELAY", "SOURCE"}, []int{22, 20, 12, 20}, rows)
}

// writeWrapped prints a table whose cells go on in further lines where they do not
// fit their column.
func writeWrapped(w io.Writer, heads []string, widths []int, rows [][]string) error {
	var b strings.Builder
	for _, row := range append([][]string{heads}, rows...) {
		cells, height := make([][]string, len(row)), 0
		for i, text := range row {
			cells[i] = wrap(text, widths[i])
			height = max(height, len(cells[i]))
		}
		for y := range height {
			var line strings.Builder
			for i := range cells {
				text := ""
				if y < len(cells[i]) {
					text = cells[i][y]
				}
				fmt.Fprintf(&line, "%-*s", widths[i]+2, text)
			}
			b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a text between words, and words that are too long.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for len([]rune(line+word)) > width {
			if line != "" {
				lines, line = append(lines, strings.TrimSuffix(line, " ")), ""
				continue
			}
			r := []rune(word)
			lines, word = append(lines, string(r[:width])), string(r[width:])
		}
		line += word + " "
	}
	return append(lines, strings.TrimSuffix(line, " "))
}

// didYouMean is a hint at the name that is meant, if one is near.
func didYouMean(name string, names []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, candidate := range names {
		if d := distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance is how many letters must be changed, added or taken to make b from a
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
