//go:build linux

package hostile

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"
)

// properties prefixes MQTT 5 properties with their length.
func properties(all ...[]byte) []byte {
	body := bytes.Join(all, nil)
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// user is a user property.
func user(key, value string) []byte { return append(append([]byte{38}, str(key)...), str(value)...) }

// connect5 is an MQTT 5 CONNECT with properties.
func connect5(id, name, password string, properties []byte) []byte {
	return packet(0x10, str("MQTT"), []byte{5, 0xc2, 0, 60}, properties, str(id), str(name), str(password))
}

// as5 logs a user in with MQTT 5.
func (n *node) as5(t *testing.T, name string) *raw {
	t.Helper()
	c := n.stranger(t)
	c.send(t, connect5(name+time.Now().Format("-150405.000000000"), name, name, properties()))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	first, body, err := c.next()
	if err != nil || first != 0x20 || body[1] != 0 {
		t.Fatalf("%s was refused: %#x %v, %v", name, first, body, err)
	}
	_ = c.SetReadDeadline(time.Time{})
	return c
}

// from logs a user in from another address of this machine, and returns how long that took.
func (n *node) from(t *testing.T, address, name string) time.Duration {
	t.Helper()
	begin := time.Now()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: patience}
	c, err := d.DialContext(t.Context(), "tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(connect5(name+"-from", name, name, properties())); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4)
	if _, err := io.ReadFull(c, answer); err != nil || answer[3] != 0 {
		t.Fatalf("%s from %s was not let in within %v: %v, %v", name, address, time.Since(begin), answer, err)
	}
	return time.Since(begin)
}
