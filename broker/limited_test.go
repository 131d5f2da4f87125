package broker

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"padme/tests/bubble"
)

// limitedInTest is a broker with nothing but a log, for limited.
func limitedInTest() (*Broker, *strings.Builder) {
	var said strings.Builder
	return &Broker{log: slog.New(slog.NewTextHandler(&said, nil))}, &said
}

// Who reaches a limit is named once a minute, for each limit, with the remedy; a
// connection from another port is the same address.
// A host has many addresses of IPv6.
func TestAHostIsANetworkOfIPv6(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1", "[::ffff:192.0.2.1]:5": "192.0.2.1", "[::1]:5": "::1",
		"[2001:db8::1]:5": "2001:db8::/64", "[2001:db8::ffff:2]:6": "2001:db8::/64", "[fe80::1%eth0]:7": "fe80::1", "in-process": "in-process",
	} {
		if got := hostOf(address); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
}

func TestLimitsAreLoggedOnceAMinute(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, said := limitedInTest()
		lines := func(want ...string) {
			t.Helper()
			got := strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
			if said.Len() == 0 {
				got = nil
			}
			if len(got) != len(want) {
				t.Fatalf("%d lines instead of %d:\n%s", len(got), len(want), said)
			}
			for i, w := range want {
				if !strings.Contains(got[i], w) || !strings.Contains(got[i], "--max-clients") {
					t.Errorf("%s does not say %s, or not what to do", got[i], w)
				}
			}
			said.Reset()
		}
		for i := range 100 {
			b.limited("max-clients", "alice", "10.0.0.1:1")
			b.limited("max-clients", "bob", "10.0.0.1:1")
			b.limited("max-clients", "", fmt.Sprint("10.0.0.7:", i))
			b.limited("max-clients", "", fmt.Sprintf("[fe80::1]:%d", i))
		}
		lines("user=alice", "user=bob", "address=10.0.0.7 ", "address=fe80::1 ")
		time.Sleep(59 * time.Second)
		b.limited("max-clients", "alice", "")
		lines()
		time.Sleep(time.Second)
		b.limited("max-clients", "alice", "")
		b.limited("max-clients", "alice", "")
		lines("user=alice")
		b.limited("max-clients", strings.Repeat("é", 1000), "")
		if said.Len() > 2*maxToldName+500 {
			t.Errorf("a stranger's name makes a line of %d bytes", said.Len())
		}
		if got := b.reached.counts["max-clients"]; got != 404 {
			t.Errorf("%d counted", got)
		}
	})
}

// Strangers with ever new addresses fill neither the memory nor the log, and who comes
// later is named when those are a minute old.
func TestLimitsOfManyStrangers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b, said := limitedInTest()
		for i := range 100_000 {
			b.limited("max-clients", "", fmt.Sprintf("10.%d.%d.%d:99", i>>16, i>>8&255, i&255))
		}
		if lines := strings.Count(said.String(), "\n"); lines != 1024+1 {
			t.Errorf("%d lines", lines)
		}
		time.Sleep(time.Minute)
		said.Reset()
		b.limited("max-clients", "alice", "")
		if !strings.Contains(said.String(), "user=alice") {
			t.Errorf("a minute later: %q", said)
		}
	})
}

// Each limit has a counter from the start.
func TestLimitsAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	b, err := Start(t.Context(), Config{Metrics: registry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(t.Context()) })
	b.limited("max-clients", "alice", "")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "padme_broker_limited_total" {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	for limit := range remedies {
		if n, there := got[limit]; !there || (n == 1) != (limit == "max-clients") {
			t.Errorf("%s is counted as %v", limit, n)
		}
	}
}

// Whatever is said to be reached has a remedy, and whatever has one is reached somewhere.
func TestLimitsHaveRemedies(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "limited" {
				return true
			}
			text, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: limited wants its limit as a literal", name)
				return true
			}
			limit, err := strconv.Unquote(text.Value)
			if used[limit] = true; err != nil || remedies[limit] == "" {
				t.Errorf("%s: limit %s has no remedy: add it to remedies", name, text.Value)
			}
			return true
		})
	}
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for limit := range remedies {
		if !strings.Contains(string(page), "\n| `--"+limit+"` | ") {
			t.Errorf("docs/configuration.md has no row for --%s", limit)
		}
		if !used[limit] {
			t.Errorf("nothing reaches the limit %s", limit)
		}
	}
}
