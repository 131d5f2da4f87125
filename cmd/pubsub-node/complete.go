package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"padme/qosmutex"
)

// completionTakes bounds what pressing Tab may cost.
const completionTakes = time.Second

// completeLock completes the names of locks, and of their resources, from what
// their roots have published. Without a broker it completes nothing.
func completeLock(s *session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTakes)
		defer cancel()
		p, err := s.joinToRead(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer leave(p)
		states, _ := lockStates(ctx, s.reading(p), p, "")
		var names []string
		for _, st := range states {
			names = append(names, st.Topic)
			if cmd.Name() == "lock" && st.Resource != qosmutex.DefaultResource {
				names = append(names, st.Topic+"/"+st.Resource)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
