package control

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
)

const (
	maxSealed = 4 << 10          // bytes of a sealed command
	fresh     = 30 * time.Second // how far a command's time may be from ours
)

// Key is what an operator must know. It is made for each run.
type Key []byte

// NewKey returns a random key.
func NewKey() Key {
	k := make(Key, sha256.Size)
	_, _ = rand.Read(k) // which never fails
	return k
}

// Sealed is a command on the wire: the command as JSON, and the hexadecimal
// HMAC-SHA256 of that text.
type Sealed struct {
	Body string `json:"body"`
	MAC  string `json:"mac"`
}

// Seal returns the command as it is published.
func (k Key) Seal(c Command) []byte {
	body, _ := json.Marshal(c)
	text, _ := json.Marshal(Sealed{string(body), hex.EncodeToString(k.mac(string(body)))})
	return text
}

func (k Key) mac(body string) []byte {
	h := hmac.New(sha256.New, k)
	h.Write([]byte(body))
	return h.Sum(nil)
}

// A judge decides which messages are commands of an operator. Each counts once.
type judge struct {
	key  Key
	cfg  *scenario.Config
	seen map[string]time.Time // ids of good commands, as long as they are fresh
}

var errForged = errors.New("not sealed with the key of this run: only the page that the demo serves has it")

// admit returns the command in a message. Of what is not sealed nothing is read.
func (j *judge) admit(payload []byte, now time.Time) (Command, error) {
	var s Sealed
	if len(payload) > maxSealed {
		return Command{}, fmt.Errorf("%d bytes are too many for a command, %d are the most", len(payload), maxSealed)
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		return Command{}, fmt.Errorf("no sealed command: %w", err)
	}
	given, err := hex.DecodeString(s.MAC)
	if err != nil || !hmac.Equal(given, j.key.mac(s.Body)) {
		return Command{}, errForged
	}
	c, err := parse(s.Body, j.cfg)
	if err != nil {
		return c, err
	}
	if age := now.Sub(time.UnixMilli(c.At)); age.Abs() > fresh {
		return c, fmt.Errorf("the command is from %v: compare the clocks", time.UnixMilli(c.At).UTC().Format(time.RFC3339))
	}
	for id, at := range j.seen {
		if now.Sub(at) > 2*fresh {
			delete(j.seen, id)
		}
	}
	if _, again := j.seen[c.ID]; again {
		return c, errors.New("the command was played again")
	}
	j.seen[c.ID] = now
	return c, nil
}
