package brokers

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// handshake opens and ends one MQTT 3.1.1 session.
func handshake(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	const id = "padme-brokers-await"
	connect := []byte{0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60}
	connect = binary.BigEndian.AppendUint16(connect, uint16(len(id)))
	connect = append(connect, id...)
	if _, err := conn.Write(append([]byte{0x10, byte(len(connect))}, connect...)); err != nil {
		return err
	}
	var connack [4]byte
	if _, err := io.ReadFull(conn, connack[:]); err != nil {
		return err
	}
	if connack[0] != 0x20 || connack[3] != 0 {
		return fmt.Errorf("CONNACK % x", connack)
	}
	_, err = conn.Write([]byte{0xe0, 0})
	return err
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}
