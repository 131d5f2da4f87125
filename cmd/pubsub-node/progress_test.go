package main

import (
	"strings"
	"testing"
	"time"

	"padme/qosmutex"
)

// A server that has never answered may serve other locks; one that has is busy.
func TestProgressSaysWhyNobodyAnswers(t *testing.T) {
	st := qosmutex.ClientStatus{Servers: []string{"v1", "v2"}, Waiting: []qosmutex.ClientRequest{{Silent: 3 * time.Second}}}
	if wrong := wrongWith(&st, "mqtt://here"); !strings.Contains(wrong, "v1 or v2 has not answered for 3s: ") || !strings.Contains(wrong, "serves other locks only") {
		t.Errorf("never answered: %s", wrong)
	}
	st.Server = "v1"
	if wrong := wrongWith(&st, "mqtt://here"); !strings.Contains(wrong, "busy") || strings.Contains(wrong, "other locks") {
		t.Errorf("answered before: %s", wrong)
	}
}
