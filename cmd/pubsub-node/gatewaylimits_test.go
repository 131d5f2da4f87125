package main

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/spf13/cobra"

	"padme/qosmutex/gateway"
)

// TestFlagsOfGatewayLimits holds that each limit of a gateway has a flag, and each flag its effect.
func TestFlagsOfGatewayLimits(t *testing.T) {
	seen := map[string]bool{}
	for i := range reflect.TypeFor[gateway.Limits]().NumField() {
		name := reflect.TypeFor[gateway.Limits]().Field(i).Name
		f, cmd := &gatewayLimitFlags{}, &cobra.Command{}
		f.add(cmd)
		for flag, field := range f.fields {
			if field != name {
				continue
			}
			seen[name] = true
			if f.given() != "" {
				t.Errorf("--%s is given", f.given())
			}
			value := 70_000
			if flag == "max-client-requests-per-lock" {
				value = 300
			}
			if err := cmd.Flags().Set(flag, strconv.Itoa(value)); err != nil {
				t.Fatal(err)
			}
			want := gateway.DefaultLimits()
			reflect.ValueOf(&want).Elem().Field(i).SetInt(int64(value))
			if _, err := f.option(); err != nil || f.limits != want || f.given() != flag {
				t.Errorf("--%s %d: %+v, %v", flag, value, f.limits, err)
			}
		}
		if !seen[name] {
			t.Errorf("Limits.%s has no flag", name)
		}
	}
}
