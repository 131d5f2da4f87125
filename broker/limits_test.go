package broker

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Every field of Limits is in the table, by which values out of range are refused, each with the names
// that those know who gave it.
func TestLimitsHaveBounds(t *testing.T) {
	var l Limits
	bounds := l.bounds()
	if fields := reflect.TypeFor[Limits]().NumField(); len(bounds) != fields {
		t.Errorf("%d of %d fields have bounds", len(bounds), fields)
	}
	for i := range bounds {
		b := &bounds[i]
		if _, known := remedies[b.flag]; !known && b.flag != "max-password-checks" {
			t.Errorf("%s has no remedy", b.flag)
		}
		for _, v := range []int64{-1, b.least - 1, b.most + 1} {
			if v == 0 || b.most == math.MaxInt && v > 0 {
				continue
			}
			var of Limits
			field := reflect.ValueOf(&of).Elem().FieldByName(b.field)
			field.SetInt(v)
			var e *LimitError
			err := of.Check()
			if !errors.As(err, &e) || !errors.Is(err, ErrInvalidConfig) || e.Field != b.field || e.Flag != b.flag || e.Range == "" || len(err.Error()) > 200 {
				t.Errorf("%s %d: %v", b.field, v, err)
			}
		}
	}
	for want, of := range map[string]Limits{
		"Limits.Filters 70000: choose 1 to 65536,":                     {Filters: 70000},
		"Limits.Clients -1: choose at least 1,":                        {Clients: -1},
		"Limits.UnauthenticatedPerAddress -1: choose at least 0,":      {UnauthenticatedPerAddress: -1},
		"Limits.SessionExpiry 100000h0m0s: choose at most 87600h0m0s,": {SessionExpiry: 100000 * time.Hour},
		"Limits.WriteTimeout -1s: choose more than 0,":                 {WriteTimeout: -time.Second},
	} {
		if err := of.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
