package flags

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// wants says, for the kinds of flags whose own errors speak of library functions, what
// they want.
var wants = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not negative",
	"float64": "a number", "bool": "true or false",
}

// Wants is what a value of a kind of flag must be, such as "a whole number"; "" if the
// error of the kind says so itself.
func Wants(kind string) string { return wants[kind] }

// Plain says what is wrong with a flag in the words of the command line, and leaves
// every other error as it is. It is for cobra's SetFlagErrorFunc.
func Plain(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	want := Wants(flag.Value.Type())
	if want == "" {
		return err
	}
	name := "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand + ", " + name
	}
	if errors.Is(err, strconv.ErrRange) {
		want += " of at most 64 bits"
	}
	return fmt.Errorf("invalid argument %q for %q: want %s", invalid.GetValue(), name, want)
}
