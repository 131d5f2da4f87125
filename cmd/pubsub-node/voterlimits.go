package main

import (
	"github.com/spf13/cobra"

	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/quorum"
)

// voterLimitFlags bound what participants that are no voters can make a voter spend.
type voterLimitFlags struct {
	rate, names int

	changed func(flag string) bool
}

func (f *voterLimitFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVar(&f.rate, "max-voter-rate", quorum.DefaultRate, "`bytes` a second that one participant may have the voters send each other")
	fs.IntVar(&f.names, "max-voter-names", caspaxos.MaxNames, "locks that one participant may create in the register at once, and then ten a minute")
	f.changed = fs.Changed
}

// check refuses what the voter would, and flags of a voter where there is none.
func (f *voterLimitFlags) check(voters bool) error {
	for _, flag := range []string{"max-voter-rate", "max-voter-names"} {
		if f.changed(flag) && !voters {
			return usageError("--%s is about voters, and without --voters this is none", flag)
		}
	}
	switch {
	case f.rate < quorum.LeastRate || f.rate > quorum.MostRate:
		return usageError("--max-voter-rate %d: choose %d to %d, or leave it out", f.rate, quorum.LeastRate, quorum.MostRate)
	case f.names < 1 || f.names > caspaxos.MaxKeys:
		return usageError("--max-voter-names %d: choose 1 to %d, or leave it out", f.names, caspaxos.MaxKeys)
	}
	return nil
}
