package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOwnRegisterOfAGateway: a gateway waits for the one before it, which is just ending, and has a register of
// its own for each broker, domain and prefix. A file that nobody has asked for and that cannot be used
// costs the next restart its holds, but does not keep the gateway from starting.
func TestOwnRegisterOfAGateway(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", t.TempDir())
	session := func(prefix string) *session {
		return &session{broker: "mqtt://broker.example:1883", domain: defaultDomain, prefix: prefix}
	}
	f := &serveFlags{}
	first, where, why, err := f.ownRegister(t.Context(), session(defaultPrefix))
	if err != nil || why != "" {
		t.Fatal(where, why, err)
	}
	other, elsewhere, why, err := f.ownRegister(t.Context(), session("yard"))
	if err != nil || why != "" || elsewhere == where {
		t.Fatalf("with another prefix %s, %s: %v", elsewhere, why, err)
	}
	time.AfterFunc(200*time.Millisecond, func() { _ = first.Close() })
	second, again, why, err := f.ownRegister(t.Context(), session(defaultPrefix))
	if err != nil || again != where {
		t.Errorf("beside one that ends: %s, %s: %v", again, why, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if third, again, why, err := f.ownRegister(ended, session(defaultPrefix)); err != nil || again != inMemory || !strings.Contains(why, "another gateway") || third.Notes() {
		t.Errorf("beside one that goes on: %s, %s: %v", again, why, err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(where, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, again, why, err := f.ownRegister(t.Context(), session(defaultPrefix)); err != nil || again != inMemory || !strings.Contains(why, "voters reset --data") {
		t.Errorf("with an empty file: %s, %s: %v", again, why, err)
	}
	if _, _, _, err := (&serveFlags{dataDir: filepath.Dir(where)}).ownRegister(t.Context(), session(defaultPrefix)); err == nil {
		t.Error("a directory that somebody has asked for is not used, and nobody is told")
	}
}
