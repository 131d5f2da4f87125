package explore

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutant is the machine broken in one place, and the search that should notice.
type mutant struct {
	why, file, old, mutated string
	search, found           string
}

var mutants = []mutant{
	{
		"a range of fences is reserved but handed out again",
		"grant.go", "t.next += n\n", "t.next++\n",
		"parents=-,A,B models=fair-replace-use-use requests=2", "I2: ",
	},
	{
		"the root takes a session for expired while its holder may still use it",
		"sessions.go", "s.sent, s.heard, s.deadline = msg.Sent, m.now, m.now+m.grace()\n", "s.sent, s.heard, s.deadline = msg.Sent, m.now, m.now+m.grace()/2\n",
		"parents=-,A models=fair-replace-use-use requests=1 tick=-1 pause=1", "I3: ",
	},
	{
		"the root takes a grant for dead while its target may still hold on it",
		"provisional.go", "s.heard + m.grace()/2 + 1", "s.heard + m.grace()/4",
		"parents=-,A models=level-forward-forward-forward requests=1 tick=-1 pause=1", "of what we are inside of on grant",
	},
	{
		"the root ends a grant after it has confirmed the hold",
		"provisional.go", "\t\t\tr.tok.until = 0\n", "",
		"parents=-,A models=level-forward-forward-forward requests=1 tick=-1", "I1: ",
	},
	{
		"a message that came before is taken again",
		"link.go", "m.counters.Stale++ // a repetition", "return true",
		"parents=-,A,B models=fair-replace-forward-use requests=2 duplicate=1", "I1: ",
	},
	{
		"a token is regenerated although a member answers that it holds it",
		"recover.go", "if msg.Verdict == protocol.VerdictHolding {", "if false {",
		"parents=-,A,B models=fair-replace-use-use requests=1 tick=-1 crash=1", "I3: ",
	},
	{
		"a token is regenerated while an answer is missing",
		"recover.go", "rec.all && len(rec.pending) == 0", "rec.all",
		"parents=-,A,B models=fair-replace-use-use requests=1 tick=-1 crash=1", "I3: ",
	},
	{
		"a withdrawal stops at the parent",
		"request.go", "	if m.takeBack(e, l) {\n		m.drop(e, true)\n	}\n	return nil", "	if m.takeBack(e, l) {\n		m.drop(e, false)\n	}\n	return nil",
		"parents=-,A,B models=level-forward-forward-forward requests=1 withdraw=1", "I7: ",
	},
	{
		"what was lost is not asked for",
		"link.go", "	m.emitOn(l, protocol.KindResend)\n}", "}",
		"parents=-,A,B models=fair-replace-use-use requests=1 tick=-1 lose=1", "I8: ",
	},
	{
		"a hold outlives its session",
		"session.go", "	if t.phase == using {\n		m.lost(r)\n		m.remove(t.inside)\n		t.inside, t.toTarget = nil, false\n	}\n	if t.phase != away {", "	if t.phase != away && t.phase != using {",
		"parents=-,A models=fair-replace-use-use requests=1 tick=-1 pause=1", "held without a session",
	},
	{
		"a hold is forgotten when the root moves",
		"handover.go", "Out: t.phase != home,", "Out: false,",
		"parents=-,A models=fair-replace-use-use requests=1 adaptive=true tick=-1 outrank=1", "I3: ",
	},
	{
		"a new root takes the tokens of the last term for free",
		"authority.go", "m.now < in.Heard+m.grace()", "false",
		"parents=-,A,A models=fair-replace-use-use requests=1 adaptive=true tick=-1 crash=1", "I3: ",
	},
	{
		"a root acts although another may be named by now",
		"authority.go", "m.role == protocol.Root && !m.authority.yielding }", "m.role == protocol.Root }",
		"parents=-,A models=fair-replace-use-use requests=1 adaptive=true register=true tick=-1 outrank=1 unheard=1", "acts as the root, and has no lease",
	},
	{
		"a root outlives its lease",
		"timers.go", "		if m.now >= m.authority.until {\n", "		if false {\n",
		"parents=-,A models=fair-replace-use-use requests=1 adaptive=true tick=-1 cut=1", "without a valid session",
	},
}

// TestFindsWhatIsBroken breaks a copy of the machine in one place and lets the
// search that should notice run on it, which prints how. Some of the counterexamples
// are in testdata; see TestTraces.
func TestFindsWhatIsBroken(t *testing.T) {
	list := mutants
	if raceDetector {
		list = list[:1] // it is not for them: they run in processes of their own, without it
	}
	for _, m := range list {
		t.Run(m.why, func(t *testing.T) {
			t.Parallel()
			overlay := mutate(t, m.file, m.old, m.mutated)
			out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-run", "TestExplore", ".", "-row", m.search).CombinedOutput()
			if err == nil {
				t.Fatalf("nothing was found:\n%s", out)
			}
			if !strings.Contains(string(out), "VIOLATION") || !strings.Contains(string(out), m.found) {
				t.Fatalf("failed without %q:\n%s", m.found, out)
			}
			t.Logf("%s", out)
		})
	}
}

// mutate writes a copy of a file of the machine with one text replaced, and the
// overlay that puts it in the file's place.
func mutate(t *testing.T, name, old, mutated string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../padme", name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), old); n != 1 {
		t.Fatalf("%s has %q %d times: the code has moved, renew the mutant", name, old, n)
	}
	dir := t.TempDir()
	copied, overlay := filepath.Join(dir, name), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(copied, []byte(strings.Replace(string(text), old, mutated, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: copied}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
