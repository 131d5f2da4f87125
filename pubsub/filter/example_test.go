package filter_test

import (
	"fmt"

	"padme/pubsub/filter"
)

func ExampleParse() {
	x, err := filter.Parse("x > 5 AND NOT (name = 'a')")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(x.Holds(map[string]any{"x": 7, "name": "b"}))
	_, err = filter.Parse("x >")
	fmt.Println(err != nil)
	// Output:
	// true <nil>
	// true
}
