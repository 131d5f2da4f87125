package main

import "testing"

func TestPercentilesOfRoundTrips(t *testing.T) {
	var trips []float64
	for i := range 100 {
		trips = append(trips, float64(100-i))
	}
	if got, want := summary(trips, 103, 7), (perfLine{103, 3, 7, 1, 51, 91, 100, 100}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
