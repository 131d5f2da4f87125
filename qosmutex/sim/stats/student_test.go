package stats_test

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"padme/qosmutex/sim/stats"
)

// Student's t of any textbook: 4.303 for 2 degrees of freedom, 2.262 for 9; 99 % is what two
// differences need that are 98 % sure together, nearly.
func TestIntervalsAreStudents(t *testing.T) {
	if got := stats.IntervalOf([]float64{1, 2, 3}, 0.95, 1); math.Abs(got.Mean-2) > 1e-9 || math.Abs(got.Half-4.303/math.Sqrt(3)) > 1e-3 {
		t.Errorf("%+v", got)
	}
	ten := []float64{1, -1, 1, -1, 1, -1, 1, -1, 1, -1} // deviation √(10/9)
	if got := stats.IntervalOf(ten, 0.95, 1); math.Abs(got.Half-2.262/3) > 1e-3 {
		t.Errorf("%+v", got)
	}
	if got := stats.IntervalOf(ten, 0.95, 5); math.Abs(got.Half-3.250/3) > 1e-3 { // 99 %
		t.Errorf("five together: %+v", got)
	}
}

// Quantiles and probabilities are those of a library.
func TestStudentIsThatOfALibrary(t *testing.T) {
	for freedom := 1; freedom < 10_000; freedom += 1 + freedom/3 {
		d := distuv.StudentsT{Sigma: 1, Nu: float64(freedom)}
		for _, p := range []float64{0.5, 0.9, 0.95, 0.99, 1 - 0.05/15, 0.9999} {
			want := d.Quantile((1 + p) / 2)
			if got := stats.StudentQuantile(p, freedom); math.Abs(got/want-1) > 1e-6 {
				t.Errorf("%d degrees of freedom, %v: %v, want %v", freedom, p, got, want)
			}
		}
		for _, x := range []float64{-3, -0.5, 0, 0.1, 2, 9} {
			if got, want := stats.StudentAbove(x, freedom), 1-d.CDF(x); math.Abs(got-want) > 1e-9 {
				t.Errorf("%d degrees of freedom above %v: %v, want %v", freedom, x, got, want)
			}
		}
	}
}

func ExampleIntervalOf() {
	waits := []float64{2.1, 1.9, 2.3, 2.0} // seconds, of four seeds
	v := stats.IntervalOf(waits, 0.95, 1)
	fmt.Printf("%.2f ±%.2f\n", v.Mean, v.Half)
	// Output: 2.08 ±0.27
}

func ExampleMeanDeviation() {
	fmt.Println(stats.MeanDeviation([]float64{1, 2, 3}))
	// Output: 2 1
}

func ExampleStudentQuantile() {
	fmt.Printf("%.3f\n", stats.StudentQuantile(0.95, 9))
	// Output: 2.262
}

func ExampleStudentAbove() {
	fmt.Printf("%.3f\n", stats.StudentAbove(2.262, 9))
	// Output: 0.025
}
