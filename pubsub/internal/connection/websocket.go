package connection

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// dialWebSocket opens MQTT over a WebSocket. The MQTT client's own dialer does
// not know contexts.
func dialWebSocket(ctx context.Context, u *url.URL, config *tls.Config) (net.Conn, error) {
	d := websocket.Dialer{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, Subprotocols: []string{"mqtt"}}
	ws, resp, err := d.DialContext(ctx, u.String(), nil) //nolint:bodyclose // of a dialer, the response has no body to close
	if resp != nil && err != nil {
		return nil, fmt.Errorf("the server answered %s instead of upgrading to a WebSocket: %w", resp.Status, err)
	}
	if err != nil {
		return nil, err
	}
	return &wsConn{Conn: ws}, nil
}

// wsConn is a WebSocket as a stream of bytes: frames carry no meaning in MQTT.
type wsConn struct {
	*websocket.Conn
	writing sync.Mutex
	frame   io.Reader // rest of the frame being read, nil between frames
}

func (c *wsConn) Read(p []byte) (int, error) {
	for {
		if c.frame == nil {
			_, r, err := c.NextReader()
			if err != nil {
				return 0, err
			}
			c.frame = r
		}
		n, err := c.frame.Read(p)
		if err == io.EOF {
			c.frame, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (c *wsConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *wsConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}
