package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"padme/qosmutex/gateway"
)

// gatewayLimitFlags bound what clients that speak JSON can make a gateway spend. What goes beyond
// one is counted and logged under the flag's name.
type gatewayLimitFlags struct {
	limits gateway.Limits
	fields map[string]string // of Limits, by flag
	value  map[string]*int   // by flag

	changed func(flag string) bool
}

func (f *gatewayLimitFlags) add(cmd *cobra.Command) {
	f.limits, f.fields, f.value = gateway.DefaultLimits(), map[string]string{}, map[string]*int{}
	f.changed = cmd.Flags().Changed
	l := &f.limits
	for _, of := range []struct {
		flag, field string
		value       *int
		usage       string
	}{
		{"max-requests", "Requests", &l.Requests, "requests of JSON clients that wait or hold at a time, and clients that are remembered"},
		{"max-client-requests", "ClientRequests", &l.ClientRequests, "those of one client"},
		{"max-client-requests-per-lock", "ClientRequestsPerLock", &l.ClientRequestsPerLock, "those of one client in one lock"},
		{"max-client-rate", "ClientRate", &l.ClientRate, "messages a second of one JSON client in one lock, and twice as many at once"},
		{"max-client-names", "ClientNames", &l.ClientNames, "new resources a second that one JSON client may name"},
		{"max-unread-requests", "Unread", &l.Unread, "messages of JSON clients that wait to be read, in bytes"},
	} {
		cmd.Flags().IntVar(of.value, of.flag, *of.value, of.usage)
		f.fields[of.flag], f.value[of.flag] = of.field, of.value
	}
}

// given is a flag of these that was given, or empty.
func (f *gatewayLimitFlags) given() string {
	for _, flag := range slices.Sorted(maps.Keys(f.fields)) {
		if f.changed(flag) {
			return flag
		}
	}
	return ""
}

// option is what the flags say.
func (f *gatewayLimitFlags) option() (gateway.Option, error) {
	for _, flag := range slices.Sorted(maps.Keys(f.value)) {
		if n := *f.value[flag]; n <= 0 { // Limits would take 0 for the default
			return nil, usageError("--%s %d: choose at least 1, or leave it out", flag, n)
		}
	}
	var e *gateway.LimitError
	if errors.As(f.limits.Check(), &e) {
		for flag, field := range f.fields {
			if field == e.Field {
				return nil, usageError("--%s %d: choose %d to %d, or leave it out", flag, e.Value, e.Least, e.Most)
			}
		}
	}
	return gateway.WithLimits(f.limits), nil
}
