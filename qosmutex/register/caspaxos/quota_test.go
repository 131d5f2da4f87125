package caspaxos

import (
	"fmt"
	"testing"

	"padme/qosmutex/register"
)

// lone is a voter that decides alone.
func lone(t *testing.T) *Machine {
	t.Helper()
	var out Output
	m, err := New(Options{Self: "A", Voters: []string{"A"}, Instance: 1, Domain: register.Domain{1}, Boot: 1 << 32, Resend: 1, Backoff: 1}, nil, 0, &out)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// asks has a client make a request, and returns what it is answered.
func asks(t *testing.T, m *Machine, client string, now Time, msg Message) Message {
	t.Helper()
	msg.Kind, msg.From, msg.To, msg.Config, msg.Domain, msg.Within = KindRequest, client, "A", 1, m.config.Domain, 1
	m.lastSeq++
	msg.Seq = m.lastSeq
	var out Output
	if err := m.Step(now, &Input{Kind: Receive, Message: &msg}, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Messages) != 1 || out.Messages[0].Kind != KindReply {
		t.Fatalf("%s is sent %v", client, out.Messages)
	}
	return out.Messages[0]
}

// creates has a client write a key that is not there.
func creates(t *testing.T, m *Machine, client, key string, now Time, bytes int) bool {
	t.Helper()
	return !asks(t, m, client, now, Message{Writes: []register.Write{{Key: key, Value: make([]byte, bytes), Nonce: 7}}}).Failed
}

// TestOneClientDoesNotFillTheRegister: names are never deleted, so one client alone must not
// be able to use up what there is room for.
func TestOneClientDoesNotFillTheRegister(t *testing.T) {
	m, made := lone(t), 0
	for i := range MaxKeys {
		if creates(t, m, "mallory", fmt.Sprint("m", i), 0, 0) {
			made++
		}
	}
	if made != MaxNames {
		t.Errorf("mallory has created %d names", made)
	}
	for i := range 1 << 10 { // as many as a server has open
		if !creates(t, m, "alice", fmt.Sprint("a", i), 0, 300) {
			t.Fatalf("alice creates no name after %d", i)
		}
	}
	if asks(t, m, "mallory", 0, Message{Writes: []register.Write{{Key: "m1", Old: register.Version{Domain: register.Domain{1}, Counter: 1, Nonce: 7}, Value: []byte("2"), Nonce: 8}}}).Failed {
		t.Error("mallory may not write what it has created")
	}
	if m.Status(0).Denied == 0 || m.Status(0).DeniedTo != "mallory" {
		t.Errorf("the status does not tell: %+v", m.Status(0))
	}
	if at := nameAfter; !creates(t, m, "mallory", "later", at, 0) || creates(t, m, "mallory", "one more", at, 0) {
		t.Error("later not one more")
	}
}

// TestNamesThatFailCount: a write that conflicts has voters remember its key, too.
func TestNamesThatFailCount(t *testing.T) {
	m := lone(t)
	for i := range MaxKeys {
		asks(t, m, "mallory", 0, Message{Writes: []register.Write{{Key: fmt.Sprint(i), Old: register.Version{Counter: 3, Nonce: 1}, Nonce: 7}}})
		asks(t, m, "mallory", 0, Message{Keys: []string{fmt.Sprint("read ", i)}})
	}
	if n := len(m.slots); n > MaxNames+1 {
		t.Errorf("%d names are remembered for mallory", n)
	}
}

// TestLargeValuesCountAsNames: one client's values do not fill the memory of the voters.
func TestLargeValuesCountAsNames(t *testing.T) {
	m := lone(t)
	for i := range 1 << 12 {
		creates(t, m, "mallory", fmt.Sprint("m", i), 0, register.MaxValue)
	}
	bytes := 0
	for _, s := range m.slots {
		bytes += len(s.State.Value)
	}
	if bytes > MaxNames*nameBytes || bytes < MaxNames*nameBytes/2 {
		t.Errorf("mallory has %d MB kept", bytes>>20)
	}
	if !creates(t, m, "alice", "a", 0, register.MaxValue) {
		t.Error("alice may not create one")
	}
}

// TestStrangersAreForgotten: who has created names is remembered for a while, of so many.
func TestStrangersAreForgotten(t *testing.T) {
	m := lone(t)
	for i := range maxOwing + 100 {
		if made := creates(t, m, fmt.Sprint("m", i), fmt.Sprint(i), 0, 0); made != (i < maxOwing) {
			t.Fatalf("the name of client %d is made: %v", i, made)
		}
	}
	if !creates(t, m, "late", "late", nameAfter, 0) || len(m.owing) != 1 {
		t.Errorf("%d clients are remembered", len(m.owing))
	}
}

// TestOwnQuestionsAreBounded: more than go on at once are answered at once, and counted.
func TestOwnQuestionsAreBounded(t *testing.T) {
	var out Output
	m, err := New(Options{Self: "A", Voters: []string{"A", "B", "C"}, Instance: 1, Boot: 1 << 32, Resend: 1, Backoff: 1}, nil, 0, &out)
	if err != nil {
		t.Fatal(err)
	}
	for i := range MaxOps + 3 {
		if err := m.Step(0, &Input{Kind: Ask, Seq: uint64(i + 1), Keys: []string{"crane"}}, &out); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Status(0).Crowded; n != 3 || len(out.Answers) != 3 {
		t.Errorf("%d are counted, %d answered", n, len(out.Answers))
	}
}
