package papers

import (
	"slices"
	"strings"
	"testing"

	"padme/qosmutex/protocol"
	"padme/qosmutex/sla"
	"padme/tests/papers/bench"
)

// TestSLAFigure1 plays the worked example of the SLA paper in the simulator, through
// the codec and the calls of the application. Step by step it is in
// qosmutex/sla/testdata/priority.
func TestSLAFigure1(t *testing.T) {
	for _, c := range []struct {
		algorithm protocol.Algorithm
		order     string
	}{
		{sla.KanrarChaki, "n11 n7 n9 n8 n3 n10 n4 n2"},
		{sla.Level(2), "n11 n7 n9 n10 n8 n4 n2 n3"},
		{sla.LevelDistance(2), "n7 n11 n9 n10 n8 n2 n4 n3"},
	} {
		got, err := bench.SLAFigureOrder(c.algorithm)
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Fields(c.order); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", c.algorithm.Name, got, want)
		}
	}
}
