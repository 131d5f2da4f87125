package quorum

import (
	"log/slog"
	"strings"
	"testing"

	"padme/qosmutex/internal/limited"
)

// 4 MB may wait of a voter, and the line says so.
func TestLineOfAVoter(t *testing.T) {
	var log strings.Builder
	v := &Voter{reached: limited.New(slog.New(slog.NewTextHandler(&log, nil)), "from", voterLimits)}
	v.turns.reached, v.turns.voters = v.reached, []string{"a", "b"}
	n := 0
	for v.turns.add("b", make([]byte, 1<<16), 1) {
		n++
	}
	v.tellLimits()
	if !strings.Contains(log.String(), "most=4194304") {
		t.Errorf("after %d KB of voter b: %s", n<<6, log.String())
	}
}
