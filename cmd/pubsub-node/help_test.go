package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestHelpFitsATerminal holds that the lines of a help text are as wide as those of the others.
// What cobra prints of flags is not ours.
func TestHelpFitsATerminal(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Long) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 92 {
				t.Errorf("%s --help has a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
}
