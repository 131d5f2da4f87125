package broker

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"padme/tests/certs"
)

// While passwords are guessed, who comes over TLS, and whose password is remembered, waits
// for none of them.
func TestHandshakesDoNotWaitForPasswords(t *testing.T) {
	ca := certs.New()
	own := tls.Config{Certificates: []tls.Certificate{ca.Issue("localhost", time.Now().Add(time.Hour))}}
	b := started(t, Config{TCP: "127.0.0.1:0", TLS: &own, Users: alone(t)})
	guess(t, b)
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: halfOfPatience}, "tcp", b.TCPAddr().String(), &tls.Config{RootCAs: ca.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// Names that no user has share one place in the line of their address.
func TestGuessedNamesWaitInOneLine(t *testing.T) {
	b := started(t, Config{TCP: "127.0.0.1:0", Users: alone(t)})
	guess(t, b)
	for _, name := range []string{"anna", "bert", "alice", "carl"} {
		c, err := net.Dial("tcp", b.TCPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := c.Write(hello(name, "wrong")); err != nil {
			t.Fatal(err)
		}
	}
	all := b.access.turns
	for deadline := time.Now().Add(halfOfPatience); ; time.Sleep(time.Millisecond) {
		all.mu.Lock()
		var names []string
		waiting := 0
		if l := all.at["127.0.0.1"]; l != nil {
			names = slices.Sorted(slices.Values(l.order))
			for _, turns := range l.named {
				waiting += len(turns)
			}
		}
		all.mu.Unlock()
		if waiting == 4 && slices.Equal(names, []string{"", "alice"}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait as %q", waiting, names)
		}
	}
}

// hello is a CONNECT.
func hello(name, password string) []byte {
	body := []byte("\x00\x04MQTT\x04\xc2\x00\x3c")
	for _, field := range []string{"id-" + name, name, password} {
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(field))), field...)
	}
	return append([]byte{0x10, byte(len(body))}, body...)
}

// halfOfPatience is half of the time that a password may wait.
const halfOfPatience = 5 * time.Second

func started(t *testing.T, c Config) *Broker {
	t.Helper()
	c.Limits.PasswordChecks = 1
	b, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

// alone is a list of one user.
func alone(t *testing.T) *Users {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte("alice:"+hashed(t, "alice")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := LoadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func hashed(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

// reloaded is a list of the same users, as another process has it.
func reloaded(t *testing.T, users *Users) *Users {
	t.Helper()
	path := filepath.Join(t.TempDir(), "users")
	if err := users.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := LoadUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// guess has a password checked until the test ends.
func guess(t *testing.T, b *Broker) {
	t.Helper()
	if err := b.access.turns.take(t.Context(), "192.0.2.1", ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.access.turns.give)
}
