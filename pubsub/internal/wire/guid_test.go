package wire

import "testing"

func TestGUIDsAreOrdered(t *testing.T) {
	a, b := GUID{"a", 9, "w2"}, GUID{"b", 1, "w1"}
	if a.Compare(b) >= 0 || a.Compare(GUID{"a", 9, "w2"}) != 0 || (GUID{"a", 1, "w3"}).Compare(a) >= 0 || (GUID{"a", 9, "w1"}).Compare(a) >= 0 {
		t.Error("not by participant, incarnation and endpoint")
	}
}
