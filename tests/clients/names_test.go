//go:build linux

package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/extent"
)

// A name that a server refuses and a client does not is waited for without an answer; one
// that only a client refuses is a lock that some programs cannot take.
func TestClientsRefuseTheSameNames(t *testing.T) {
	extent.NotShort(t, "real processes")
	t.Parallel()
	node, jsDir := packageJS(t)
	names := strangeNames()
	want := refusedByGo(t, names)
	for _, client := range []struct {
		name, dir string
		command   []string
	}{
		{"python", pythonPackage, []string{interpreter(t), "-B", "-c", `
import json, sys
from padme._settings import lock_level
def refused(name):
    try:
        lock_level(name)
    except ValueError:
        return True
    return False
json.dump([refused(name) for name in json.load(sys.stdin)], sys.stdout)`}},
		{"javascript", jsDir, []string{node, "--input-type=module", "-e", `
import { readFileSync } from "node:fs";
import { lockLevel } from "./src/options.js";
function refused(name) {
  try {
    lockLevel(name);
  } catch {
    return true;
  }
  return false;
}
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(refused)));`}},
	} {
		t.Run(client.name, func(t *testing.T) {
			compareRefusals(t, names, want, client.dir, client.command)
		})
	}
}

// compareRefusals has a client judge the names.
func compareRefusals(t *testing.T, names []string, want []bool, dir string, command []string) {
	t.Helper()
	in, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(in), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var got []bool
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(want) {
		t.Fatalf("%d answers, want %d: %v", len(got), len(want), err)
	}
	wrong := 0
	for i, name := range names {
		if got[i] == want[i] {
			continue
		}
		if wrong++; wrong <= 10 {
			t.Errorf("%.60q: refused is %v, in Go it is %v", name, got[i], want[i])
		}
	}
	if wrong > 10 {
		t.Errorf("and %d more", wrong-10)
	}
}

// strangeNames has each character that is not a private one's, alone and within a word, and
// what has a rule of its own.
func strangeNames() []string {
	names := []string{
		"", "+", "#", "*", "++", "+#", "crane+", "a/b", "/", "gateway", "join", "client", "member", "Gateway", "state", "$SYS",
		"  ", " \u00a0\u3000", " a ", "\u2028\u2029", "\ufeff", " \ufeff", "\u200b", "\u180e", "\ufffd",
		strings.Repeat("x", 120), strings.Repeat("x", 121), strings.Repeat("x", 200), strings.Repeat("ö", 60), strings.Repeat("ö", 61),
		strings.Repeat("😀", 30), strings.Repeat("😀", 31),
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r > 0x1ffff && r&0xffff == 0x10 {
			r = r&^0xffff + 0xfff0 // the ends of planes have characters that are none
		}
		if utf8.ValidRune(r) {
			names = append(names, string(r), "a"+string(r))
		}
	}
	return names
}

// refusedByGo asks the library, as a participant that has ended: it looks at a name first.
func refusedByGo(t *testing.T, names []string) []bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := broker.Start(ctx, broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close(context.WithoutCancel(ctx))
	p, err := pubsub.Join(ctx, "", "names", pubsub.Unannounced(), pubsub.WithDialer(b.Dial))
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Close(ctx)
	refused := make([]bool, len(names))
	for i, name := range names {
		_, err := qosmutex.Dial(t.Context(), p, name)
		refused[i] = errors.Is(err, qosmutex.ErrInvalidName)
		if !refused[i] && !errors.Is(err, qosmutex.ErrClosed) {
			t.Fatalf("%q: %v", name, err)
		}
	}
	return refused
}
