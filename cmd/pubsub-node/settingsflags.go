package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"padme/cmd/internal/flags"
	"padme/qosmutex"
)

// settingsFlags are the flags that say what holds for a lock topic.
type settingsFlags struct {
	models    string
	resources []string
	open      bool
	ttl       time.Duration

	given func(name string) bool
}

// add adds them to cmd; of says which locks are meant.
func (f *settingsFlags) add(cmd *cobra.Command, of string) {
	fs := cmd.Flags()
	f.given = fs.Changed
	fs.StringVar(&f.models, "models", "", "`models`"+of+", as Priority-Request-Reply-Release or by initials: FRUU is fair-replace-use-use")
	fs.StringSliceVar(&f.resources, "resources", nil, "`names` of the resources"+of+", separated by commas; no others are accepted unless --open is given, too")
	fs.BoolVar(&f.open, "open", false, "accept any other name of a resource, too")
}

func (f *settingsFlags) addTTL(cmd *cobra.Command, usage string) {
	flags.DurationVar(cmd.Flags(), &f.ttl, "ttl", "", 0, usage)
}

// options are the settings that were given.
func (f *settingsFlags) options() ([]qosmutex.Option, error) {
	var opts []qosmutex.Option
	if f.given("models") {
		m, err := qosmutex.ParseModels(f.models)
		if err != nil {
			return nil, usageError("--models: %w", err)
		}
		opts = append(opts, qosmutex.WithModels(m))
	}
	if f.given("resources") {
		if len(f.resources) == 0 {
			return nil, usageError("--resources names nothing: name them, separated by commas, or give --open for any name")
		}
		var names []string
		for _, name := range f.resources {
			if name = strings.TrimSpace(name); name == "" {
				return nil, usageError("--resources %q: a name is empty", strings.Join(f.resources, ","))
			}
			names = append(names, name)
		}
		opts = append(opts, qosmutex.WithResources(names...))
	}
	if f.open {
		opts = append(opts, qosmutex.WithOpenResources())
	}
	return opts, nil
}

// timing is base with the TTL that was given.
func (f *settingsFlags) timing(base qosmutex.Timing) (qosmutex.Timing, error) {
	if !f.given("ttl") {
		return base, nil
	}
	if f.ttl < qosmutex.MinTTL || f.ttl > qosmutex.MaxTTL {
		return base, usageError("--ttl %v: give %v to %v", f.ttl, qosmutex.MinTTL, qosmutex.MaxTTL)
	}
	return base.WithTTL(f.ttl), nil
}
