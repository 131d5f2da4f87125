package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"padme/tests/process"
)

// verb is a command with its flags and the commands below it, as --help tells.
type verb struct {
	flags map[string]string // with its dashes: the line about it
	own   map[string]bool   // those that are not global
	below map[string]*verb
}

// programs has those that the documentation names, by name.
var programs = map[string]*verb{}

// binaries is the directory that they are in.
var binaries string

// TestMain builds the programs.
func TestMain(m *testing.M) {
	dir, remove := process.Build("padme/cmd/pubsub-node", "padme/cmd/rescue-demo")
	binaries = dir
	for _, name := range []string{"pubsub-node", "rescue-demo"} {
		var err error
		if programs[name], err = help(filepath.Join(dir, name)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	remove()
	os.Exit(code)
}

var (
	flagLine = regexp.MustCompile(`^ +(?:(-\w), )?(--[a-z-]+)\b`)
	verbLine = regexp.MustCompile(`^  ([a-z-]+) +\S`)
)

// help asks a command and those below it what they take.
func help(path string, words ...string) (*verb, error) {
	text, err := exec.Command(path, append(words, "--help")...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %v --help: %w", filepath.Base(path), words, err)
	}
	v := &verb{flags: map[string]string{}, own: map[string]bool{}, below: map[string]*verb{}}
	section := ""
	for line := range strings.Lines(string(text)) {
		if line[0] != ' ' && line[0] != '\n' {
			section = strings.TrimSpace(line)
		}
		if m := flagLine.FindStringSubmatch(line); m != nil && strings.HasSuffix(section, "lags:") {
			v.flags[m[2]] = line
			v.own[m[2]] = section == "Flags:"
			if m[1] != "" {
				v.flags[m[1]] = line
			}
		}
		if m := verbLine.FindStringSubmatch(line); m != nil && section == "Available Commands:" {
			if v.below[m[1]], err = help(path, append(words, m[1])...); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// checkCommand returns what is wrong with the words after a program's name. They end
// with the words of another program: after --, or with what a shell does with them.
func (v *verb) checkCommand(words []string) string {
	name, arguments := "", false
	for _, w := range words {
		w = strings.Trim(w, `"'`)
		flag, _, _ := strings.Cut(w, "=")
		switch {
		case w == "--" || strings.ContainsAny(w, "|;&><)#`"):
			return ""
		case strings.HasPrefix(flag, "-") && len(flag) > 1:
			if v.flags[flag] == "" {
				return fmt.Sprintf("%s has no flag %s", name, flag)
			}
		case !arguments && v.below[w] != nil:
			v, name = v.below[w], strings.TrimSpace(name+" "+w)
		case name == "" && !arguments && v.below != nil && regexp.MustCompile(`^[a-z]+$`).MatchString(w):
			return fmt.Sprintf("there is no %s", w)
		default:
			arguments = true
		}
	}
	return ""
}

func TestWrongCommandsAreSeen(t *testing.T) {
	for text, want := range map[string]string{
		"broker --listen :1883 --users users":         "",
		"lock crane -p 1 -w 30s -- ./lift.sh --fast":  "",
		"lock ls crane --json | jq --no-such":         "",
		"broker --no-such":                            "broker has no flag --no-such",
		"lock queue --no-wait":                        "lock queue has no flag --no-wait",
		"sing --loud":                                 "there is no sing",
		"serve crane --timeout=1m --metrix 127.0.0.1": "serve has no flag --metrix",
	} {
		if got := programs["pubsub-node"].checkCommand(strings.Fields(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
