package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// versionLine is the line of `version --json`.
type versionLine struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the source differs from the commit
	Time     string `json:"time,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which version this is",
		Long: `version prints the version of pubsub-node, the commit that it was built from, the
version of Go and the platform. "(devel)" is a build from a checkout or a copy of one.`,
		Example: `  pubsub-node version
  pubsub-node version --json | jq -r .commit`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), []versionLine{readVersion()})
			}
			return writeVersion(cmd.OutOrStdout(), readVersion())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// readVersion reads what the Go toolchain has put into the program.
func readVersion() versionLine {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) versionLine {
	v := versionLine{Version: info.Main.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "vcs.time":
			v.Time = s.Value
		}
	}
	return v
}

func writeVersion(w io.Writer, v versionLine) error {
	parts := []string{"pubsub-node " + v.Version}
	if v.Commit != "" {
		commit := "commit " + v.Commit
		if v.Modified {
			commit += " (modified)"
		}
		parts = append(parts, commit)
	}
	_, err := fmt.Fprintln(w, strings.Join(append(parts, v.Go, v.Platform), ", "))
	return err
}
