package docs

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"padme/tests/process"
)

const (
	alerts    = "docs/monitoring/padme-alerts.yml"
	dashboard = "docs/monitoring/padme-dashboard.json"
)

// promtool runs Prometheus' own checker. Where the peers of tests have to be, it has to be.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	c := exec.Command(process.Need(t, "apt-get install prometheus", "promtool"), args...)
	c.Dir = root
	if text, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v: %s", strings.Join(args, " "), err, text)
	}
}

// Prometheus takes the rules, and they fire when they should.
func TestAlertRules(t *testing.T) {
	promtool(t, "check", "rules", alerts)
	promtool(t, "test", "rules", "docs/monitoring/padme-alerts-test.yml")
}

// expressions are all queries of the dashboard, with values in the place of its variables.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var board any
	if err := json.Unmarshal([]byte(read(t, dashboard)), &board); err != nil {
		t.Fatal(err)
	}
	values := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", ".*", "$lock", ".*")
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if e, ok := v["expr"].(string); ok {
				all = append(all, values.Replace(e))
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(board)
	if len(all) < 40 {
		t.Fatalf("only %d queries in the dashboard", len(all))
	}
	return all
}

// Prometheus understands each query of the dashboard.
func TestDashboardQueries(t *testing.T) {
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	for i, e := range expressions(t) {
		if strings.Contains(e, "$") {
			t.Errorf("%s: a variable that the dashboard does not have", e)
		}
		rules += fmt.Sprintf("      - record: query%d\n        expr: %q\n", i, e)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", file)
}

// Every alert is explained, and every explained one is there.
func TestAlertsAreExplained(t *testing.T) {
	explained, fires := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(Padme\\w+)` \\|").FindAllStringSubmatch(read(t, "docs/operations.md"), -1) {
		explained[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(read(t, alerts), -1) {
		fires[m[1]] = true
	}
	if len(fires) < 15 || !maps.Equal(explained, fires) {
		t.Errorf("docs/operations.md explains %v, %s has %v", slices.Sorted(maps.Keys(explained)), alerts, slices.Sorted(maps.Keys(fires)))
	}
}

var (
	selector = regexp.MustCompile(`\b((?:qosmutex|pubsub|padme|process|go)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)(=~|=|!=)"([^"]*)"`)
	recorded = regexp.MustCompile(`\b[a-z]+:[a-z0-9_:]+`)
)

// What the rules, the dashboard and the page about them name is served: each metric, each label
// by which they choose, and each value of a label that is ours.
func TestMetricsOfMonitoringAreServed(t *testing.T) {
	served := servedMetrics(t)
	rules := regexp.MustCompile(`(?m)^ *summary:.*$|^ *#.*$|(?:by|on) \([^)]*\)|record: .*`).ReplaceAllString(read(t, alerts), "")
	for _, m := range regexp.MustCompile("`[^`\n]+`").FindAllString(read(t, "docs/operations.md"), -1) {
		rules += "\n" + m
	}
	seen := 0
	for _, text := range append(expressions(t), rules) {
		for _, name := range recorded.FindAllString(text, -1) {
			if !strings.Contains(read(t, alerts), "record: "+name+"\n") {
				t.Errorf("no rule records %s", name)
			}
			text = strings.ReplaceAll(text, name, "")
		}
		for _, m := range selector.FindAllStringSubmatch(text, -1) {
			seen++
			samples := append(served[m[1]], served[m[1]+"_bucket"]...) // of a histogram
			if len(samples) == 0 {
				t.Errorf("nobody serves %s", m[1])
				continue
			}
			for _, by := range matcher.FindAllStringSubmatch(m[2], -1) {
				if label, op, value := by[1], by[2], by[3]; label != "job" && !chooses(samples, label, op, value) {
					t.Errorf("%s: no sample has %s%s%q: %q", m[1], label, op, value, samples)
				}
			}
		}
	}
	if seen < 80 {
		t.Errorf("only %d metrics are named", seen)
	}
}

// chooses reports whether a sample is what a matcher asks for. Of what may be any of several
// values, each must be there.
func chooses(samples []string, label, op, value string) bool {
	has := func(value string) bool {
		return slices.ContainsFunc(samples, func(s string) bool { return strings.Contains(s, label+`="`+value) })
	}
	switch op {
	case "=~":
		if value == ".*" {
			return has("")
		}
		return !slices.ContainsFunc(strings.Split(value, "|"), func(v string) bool { return !has(v + `"`) })
	case "!=":
		return has("")
	}
	return has(value + `"`)
}

// servedMetrics are the samples by name that a broker with a lock, and a voter beside its like,
// serve.
func servedMetrics(t *testing.T) map[string][]string {
	t.Helper()
	url, broker := starts(t, "mqtt", "broker", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--memory")
	node(t, "--broker", url, "lock", "crane", "--", "true")
	bare, _ := starts(t, "mqtt", "broker", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--no-locks")
	var voters []string
	for _, id := range []string{"v1", "v2", "v3"} {
		_, voter := starts(t, "metrics", "--broker", bare, "--id", id, "serve", "crane", "--voters", "v1,v2,v3", "--data", t.TempDir(), "--metrics", "127.0.0.1:0")
		voters = append(voters, voter)
	}
	node(t, "--broker", bare, "lock", "crane", "--", "true")
	all := map[string][]string{}
	for _, url := range append(voters, broker) {
		scrape(t, url, all)
	}
	return all
}

// node runs a command of pubsub-node to its end.
func node(t *testing.T, args ...string) {
	t.Helper()
	if text, err := exec.Command(filepath.Join(binaries, "pubsub-node"), args...).CombinedOutput(); err != nil {
		t.Fatalf("pubsub-node %s: %v: %s", strings.Join(args, " "), err, text)
	}
}

// starts runs pubsub-node until the test ends, and returns what it says of itself under this
// word, and where its metrics are.
func starts(t *testing.T, word string, args ...string) (said, metrics string) {
	t.Helper()
	c := exec.Command(filepath.Join(binaries, "pubsub-node"), args...)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		_ = out.Close()
	})
	is := map[string]string{}
	for deadline := time.Now().Add(time.Minute); is[word] == "" || is["metrics"] == ""; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(out.Name())
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 1 && strings.HasSuffix(line, "\n") {
				is[words[0]] = words[1]
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("pubsub-node %s says: %s", strings.Join(args, " "), text)
		}
	}
	return is[word], is["metrics"]
}

func scrape(t *testing.T, url string, into map[string][]string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name := regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*`).FindString(line); name != "" {
			into[name] = append(into[name], strings.TrimSpace(line))
		}
	}
}
