package padme

import "testing"

// A lock is told to be free while its token is retained, and no longer when the root asks for
// it and hears nothing: whoever retains it may have died, or be inside.
func TestWhatIsRecalledIsNotFree(t *testing.T) {
	w := newWorld()
	play(t, w, "tree A(B C) models=level-forward-forward-retain", "request B", "leave B", "request B", "leave B")
	status := func() (retained, lost bool, target string) {
		s, ok := w.nodes["A"].machine.Resource("x", -1)
		if !ok {
			t.Fatal("the root knows nothing of it")
		}
		return s.Retained, s.Lost, s.Target.Node.ID
	}
	if retained, lost, _ := status(); !retained || lost {
		t.Errorf("retained %v, lost %v", retained, lost)
	}
	play(t, w, "crash B", "request C")
	if retained, _, target := status(); retained || target != "B" {
		t.Errorf("while the root asks for it: retained %v, by %q", retained, target)
	}
}
