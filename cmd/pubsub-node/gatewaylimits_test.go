package main

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/spf13/cobra"

	"padme/qosmutex"
	"padme/qosmutex/gateway"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/quorum"
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

// TestFlagsOfVoterLimits holds that those of a voter have their effect.
func TestFlagsOfVoterLimits(t *testing.T) {
	f, cmd := &serveFlags{}, &cobra.Command{}
	f.voter.add(cmd)
	if o := f.voterOptions(qosmutex.LAN(), nil); o.Rate != quorum.DefaultRate || o.Names != caspaxos.MaxNames {
		t.Errorf("without flags: %d, %d", o.Rate, o.Names)
	}
	if err := cmd.ParseFlags([]string{"--max-voter-rate", "100000", "--max-voter-names", "7"}); err != nil {
		t.Fatal(err)
	}
	if o := f.voterOptions(qosmutex.LAN(), nil); o.Rate != 100_000 || o.Names != 7 || f.voter.check(true) != nil || f.voter.check(false) == nil {
		t.Errorf("with flags: %d, %d, %v", o.Rate, o.Names, f.voter.check(true))
	}
}
