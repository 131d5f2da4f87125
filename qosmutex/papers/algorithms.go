package papers

import (
	"fmt"
	"slices"

	"padme/qosmutex"
	"padme/qosmutex/classic"
	"padme/qosmutex/padme"
	"padme/qosmutex/protocol"
	"padme/qosmutex/sla"
)

// Algorithms lists every algorithm of this module: PADME first, which qosmutex.Open runs,
// then those that Open runs: the classical ones and those of the SLA paper. The slice is
// fresh.
func Algorithms() []protocol.Algorithm {
	return slices.Concat([]protocol.Algorithm{padme.Algorithm}, classic.All(), sla.Priority(), sla.Deadlines())
}

// AlgorithmNamed finds an algorithm by its name. The error wraps
// qosmutex.ErrInvalidConfig and lists the names there are.
func AlgorithmNamed(name string) (protocol.Algorithm, error) {
	var names []string
	for _, a := range Algorithms() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return protocol.Algorithm{}, fmt.Errorf("%w: no algorithm is named %q: take one of %q", qosmutex.ErrInvalidConfig, name, names)
}
