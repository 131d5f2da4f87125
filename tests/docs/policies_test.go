package docs

import (
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"padme/pubsub"
)

const qos = "docs/qos.md"

// policies are those of DDS 1.4, in its order, and what docs/qos.md compares beside them.
var policies = []string{
	"USER_DATA", "TOPIC_DATA", "GROUP_DATA", "DURABILITY", "DURABILITY_SERVICE", "PRESENTATION", "DEADLINE", "LATENCY_BUDGET",
	"OWNERSHIP", "OWNERSHIP_STRENGTH", "LIVELINESS", "TIME_BASED_FILTER", "PARTITION", "RELIABILITY", "TRANSPORT_PRIORITY",
	"LIFESPAN", "DESTINATION_ORDER", "HISTORY", "RESOURCE_LIMITS", "ENTITY_FACTORY", "WRITER_DATA_LIFECYCLE", "READER_DATA_LIFECYCLE",
	"content filter", "coalescing, batching", "TYPE_CONSISTENCY", "DATA_REPRESENTATION", "changes at run time",
}

// tableRows are the cells of a text's tables, with the tables' heads.
func tableRows(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") {
			rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
		}
	}
	return rows
}

// testsOfPubsub are the names of the tests of pubsub and of the packages below it, and of
// the files that they are in.
func testsOfPubsub(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "pubsub"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			names = append(names, testsOf(t, strings.TrimPrefix(path, root))...)
		} else if strings.HasSuffix(path, "_test.go") {
			names = append(names, d.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The table beside other middleware has all policies; what it says of others says where
// that is said, and what it says of padme names a test; no field of QoS is left out.
func TestPoliciesBesideOthers(t *testing.T) {
	_, text, _ := strings.Cut(read(t, qos), "\n## Beside Cyclone DDS, Fast DDS and Zenoh\n")
	text, _, _ = strings.Cut(text, "\n## ")
	tests := testsOfPubsub(t)
	var rows []string
	ours := ""
	for _, cells := range tableRows(text) {
		if len(cells) != 6 || cells[0] == "policy" {
			continue
		}
		rows = append(rows, cells[0])
		for i, cell := range cells[1:4] {
			if cell != "not found" && !cited.MatchString(cell) {
				t.Errorf("%s: of the %d. of the others nothing is cited: %q", cells[0], i+1, cell)
			}
		}
		ours += cells[4]
		spans := codeInLine.FindAllString(cells[5], -1)
		if len(spans) == 0 {
			t.Errorf("%s: no test", cells[0])
		}
		for _, span := range spans {
			if !slices.Contains(tests, strings.Trim(span, "`")) {
				t.Errorf("%s: pubsub has no test %s", cells[0], span)
			}
		}
	}
	if !slices.Equal(rows, policies) {
		t.Errorf("the table has\n%q, want\n%q", rows, policies)
	}
	for f := range reflect.TypeFor[pubsub.QoS]().Fields() {
		if !strings.Contains(ours, "`"+f.Name+"`") {
			t.Errorf("QoS.%s is not in the table", f.Name)
		}
	}
	checkReferences(t, text)
}

var (
	cited      = regexp.MustCompile(`\]\[([a-z0-9-]+)\]`)
	definition = regexp.MustCompile(`(?m)^\[([a-z0-9-]+)\]: https://\S+$`)
)

// checkReferences says which links by a label have no address, and which addresses no link.
func checkReferences(t *testing.T, text string) {
	t.Helper()
	labels := func(of *regexp.Regexp) (all []string) {
		for _, m := range of.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		slices.Sort(all)
		return all
	}
	if used, defined := slices.Compact(labels(cited)), labels(definition); !slices.Equal(used, defined) {
		t.Errorf("labels of links: %q, with an address: %q", used, defined)
	}
}

// What the last columns of the page's tables name are tests of pubsub, or parts of their
// names, or their files.
func TestTestsOfPolicies(t *testing.T) {
	tests := testsOfPubsub(t)
	seen, column := 0, ""
	for _, cells := range tableRows(read(t, qos)) {
		last := cells[len(cells)-1]
		if !strings.Contains(last, "`") {
			column = last
		}
		if column != "test" {
			continue
		}
		for _, span := range codeInLine.FindAllString(last, -1) {
			name := strings.Trim(span, "`")
			if seen++; !strings.HasPrefix(name, "Err") && !slices.ContainsFunc(tests, func(test string) bool { return strings.Contains(test, name) }) {
				t.Errorf("pubsub has no test %s", span)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d tests", seen)
	}
}
