//go:build linux

package hostile

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/tests/extent"
)

func init() {
	attackers["key updates"] = updateKeys
	attackers["key updates of a client"] = updateKeysOf
}

// beforeConnect is nearly what a stranger may send in all: 16 KB of a CONNECT and 32 more.
const beforeConnect = 45_000

// updateKeys completes the TLS handshake on 250 connections, and has all of them, at the same moment,
// send a CONNECT that never ends, and before each byte of it sixteen new keys, as many as
// crypto/tls accepts: 1,700 in 45 KB, each to be answered by another one.
func updateKeys(addr, _ string) error {
	if _, err := shake(addr); err != nil {
		return err
	}
	go func() {
		for {
			var ready, done sync.WaitGroup
			now := make(chan struct{})
			for range 250 {
				ready.Add(1)
				done.Go(func() {
					s, err := shake(addr)
					ready.Done()
					if err != nil {
						return
					}
					defer func() { _ = s.conn.Close() }()
					go func() { _, _ = io.Copy(io.Discard, s.conn) }()
					load := s.keys("\x10\x80\x7f\x00\x04MQTT\x04\xc2\x00\x3c\x3f\xff" + strings.Repeat("a", 1000))
					<-now
					_ = s.conn.SetDeadline(time.Now().Add(flooded))
					_, _ = s.conn.Write(load)
					time.Sleep(300 * time.Millisecond)
				})
			}
			ready.Wait()
			close(now)
			done.Wait()
		}
	}()
	return nil
}

// updateKeysOf has all the connections that a client may have send pings at the same moment, with
// sixteen new keys before each byte.
func updateKeysOf(addr, _ string) error {
	var all []*speaker
	for i := range 95 {
		s, err := shake(addr)
		if err != nil {
			return err
		}
		_ = s.conn.SetDeadline(time.Time{})
		if _, err := s.conn.Write(s.record(nil, 23, packet(0x10, str("MQTT"), []byte{4, 0xc2, 0, 0}, str(fmt.Sprint("keys-", i)), str("eve"), str("eve"))...)); err != nil {
			return err
		}
		go func() { _, _ = io.Copy(io.Discard, s.conn) }()
		all = append(all, s)
	}
	loads := make([][]byte, len(all))
	for i, s := range all {
		for range 3 {
			loads[i] = append(loads[i], s.keys(strings.Repeat("\xc0\x00", 500))...)
		}
	}
	for i, s := range all {
		go func() { _, _ = s.conn.Write(loads[i]) }()
	}
	return nil
}

// speaker writes the records of a TLS 1.3 connection that another one has opened, with
// TLS_AES_128_GCM_SHA256.
type speaker struct {
	conn   net.Conn
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	number uint64 // of the next record
}

// shake completes a handshake.
func shake(addr string) (*speaker, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &speaker{conn: c}
	_ = c.SetDeadline(time.Now().Add(flooded))
	over := tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, KeyLogWriter: s, CurvePreferences: []tls.CurveID{tls.X25519}})
	if err := over.Handshake(); err != nil {
		_ = c.Close()
		return nil, err
	}
	if over.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 || s.secret == nil {
		_ = c.Close()
		return nil, errors.New("another cipher")
	}
	return s, s.rekey()
}

// Write takes the secret from the key log.
func (s *speaker) Write(p []byte) (int, error) {
	if f := strings.Fields(string(p)); len(f) == 3 && f[0] == "CLIENT_TRAFFIC_SECRET_0" {
		s.secret, _ = hex.DecodeString(f[2])
	}
	return len(p), nil
}

func (s *speaker) expand(label string, n int) ([]byte, error) {
	label = "tls13 " + label
	info := append(append([]byte{0, byte(n), byte(len(label))}, label...), 0)
	return hkdf.Expand(sha256.New, s.secret, string(info), n)
}

// rekey takes the secret into use.
func (s *speaker) rekey() error {
	key, err := s.expand("key", 16)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if s.aead, err = cipher.NewGCM(block); err != nil {
		return err
	}
	s.iv, err = s.expand("iv", 12)
	s.number = 0
	return err
}

// record appends one of a kind.
func (s *speaker) record(to []byte, kind byte, p ...byte) []byte {
	nonce := append([]byte(nil), s.iv...)
	binary.BigEndian.PutUint64(nonce[4:], binary.BigEndian.Uint64(nonce[4:])^s.number)
	s.number++
	head := []byte{23, 3, 3, 0, byte(len(p) + 1 + s.aead.Overhead())}
	return s.aead.Seal(append(to, head...), nonce, append(p, kind), head)
}

// keys are sixteen new keys before each byte, for as much as may be sent.
func (s *speaker) keys(text string) (load []byte) {
	for i := 0; len(load) < beforeConnect; i++ {
		for range 16 {
			load = s.record(load, 22, 24, 0, 0, 1, 1) // KeyUpdate, which asks for another one
			next, err := s.expand("traffic upd", 32)
			if err != nil {
				return nil
			}
			if s.secret = next; s.rekey() != nil {
				return nil
			}
		}
		load = s.record(load, 23, text[i])
	}
	return load
}

// What TLS does for a stranger before its CONNECT is done for a few at a time.
func TestKeyUpdates(t *testing.T) { lockDuringKeyUpdates(t, "key updates") }

// What it does for a client afterwards, too.
func TestKeyUpdatesOfAClient(t *testing.T) { lockDuringKeyUpdates(t, "key updates of a client") }

func lockDuringKeyUpdates(t *testing.T, attack string) {
	extent.Long(t, "thousands of handshakes")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	lockDuring(t, startSecureNode(t, key), attack)
}
