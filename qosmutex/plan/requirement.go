package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Requirement is what a choice must meet: a limit of a figure, or what is known of an
// algorithm without running it.
type Requirement struct {
	text   string
	fact   fact // noFact: a limit
	figure string
	above  bool // at least limit, else at most
	strict bool // not limit itself
	limit  float64
}

// String is as ParseRequirements read it.
func (r Requirement) String() string { return r.text }

// ParseRequirements reads one text of --require: a limit such as "wait.p99[0] < 3s",
// "survive=" with root, holder or member, "deadlines" or "no-starvation".
func ParseRequirements(text string) ([]Requirement, error) {
	text = strings.TrimSpace(text)
	if list, ok := strings.CutPrefix(text, "survive="); ok {
		var all []Requirement
		for who := range strings.SplitSeq(list, ",") {
			f, known := survivals[strings.TrimSpace(who)]
			if !known {
				return nil, fmt.Errorf("%w: %q: survive= takes root, holder and member, separated by commas", ErrPlan, text)
			}
			all = append(all, Requirement{text: "survive=" + strings.TrimSpace(who), fact: f})
		}
		return all, nil
	}
	switch text {
	case "deadlines":
		return []Requirement{{text: text, fact: keepsDeadlines}}, nil
	case "no-starvation":
		return []Requirement{{text: text, fact: starvesNobody}}, nil
	}
	r, err := parseLimit(text)
	return []Requirement{r}, err
}

func parseLimit(text string) (Requirement, error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return Requirement{}, fmt.Errorf("%w: requirement %q: want a limit such as 'wait.p99[0] < 3s', survive=root,holder,member, deadlines, or no-starvation", ErrPlan, text)
	}
	value, equal := strings.CutPrefix(text[at+1:], "=")
	r := Requirement{figure: strings.TrimSpace(text[:at]), above: text[at] == '>', strict: !equal}
	q, err := quantityOf(r.figure)
	if err != nil {
		return r, err
	}
	if r.limit, err = parseValue(strings.TrimSpace(value), q.times); err != nil {
		return r, fmt.Errorf("%w: requirement %q: %w", ErrPlan, text, err)
	}
	sign := text[at : len(text)-len(value)]
	r.text = fmt.Sprintf("%s %s %s", r.figure, sign, strings.TrimSpace(value))
	return r, nil
}

func parseValue(text string, isTime bool) (float64, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		return v, nil
	}
	if !isTime {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time such as 20ms or 3s", text)
	}
	return d.Seconds(), nil
}

// excess is by how much v misses the limit, 0 if it meets it.
func (r *Requirement) excess(v float64) float64 {
	by := v - r.limit
	if r.above {
		by = -by
	}
	if by == 0 && r.strict {
		return 1e-12
	}
	return max(0, by)
}

// drilled reports whether the requirement is about what only a drill measures.
func (r *Requirement) drilled() bool { return strings.HasPrefix(r.figure, "recovery.") }

// limits are those that are measured in every run.
func limits(all []Requirement) []Requirement {
	return slices.DeleteFunc(slices.Clone(all), func(r Requirement) bool { return r.fact != noFact || r.drilled() })
}
