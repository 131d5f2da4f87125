package broker

import (
	"context"
	"log/slog"
	"strings"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// A refusal is worth a line in the log, and a client, or a stranger, may cause as many as it
// likes: so there is one a minute for each address and user, and the rest are for debugging.
// The metrics count all.

// tellOnce reports whether the log should say now what was refused.
func (h *access) tellOnce(what, user, address string) bool {
	who := hostOf(address)
	if h.users != nil {
		if _, known := h.users.lookup([]byte(user)); known { // a stranger's word is none
			who += " " + user
		}
	}
	return h.sessions.b.reached.told.May(limitedBy{what, who}, time.Now())
}

func (h *access) tell(what, user, address, text string, args ...any) {
	level := slog.LevelDebug
	if h.tellOnce(what, user, address) {
		level = slog.LevelWarn
	}
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = brief(s)
		}
	}
	h.log.Log(context.Background(), level, text, args...)
}

// brief cuts what somebody else chose.
func brief(s string) string {
	if len(s) <= maxToldName {
		return s
	}
	return strings.ToValidUTF8(s[:maxToldName], "") + "…"
}

func (h *access) refuseConnect(c *conn, why, user string) {
	h.counts.refusedConnect.Add(1)
	remote := c.RemoteAddr().String()
	h.tell("refused connection", user, remote, "connection refused: "+why, "user", user, "client", c.connect.ID, "remote", remote)
}

func (h *access) logConnect(cl *mqtt.Client, why string, args ...any) {
	h.tell("refused will", string(cl.Properties.Username), cl.Net.Remote, "connection refused: "+why, append(args, "client", cl.ID, "remote", cl.Net.Remote)...)
}

// logRefusal is for publications and subscriptions.
func (h *access) logRefusal(cl *mqtt.Client, what, topic string, args ...any) {
	h.tell(what, string(cl.Properties.Username), cl.Net.Remote, what, append([]any{"user", string(cl.Properties.Username), "client", cl.ID, "topic", topic}, args...)...)
}

// tellLoss is for connections and messages that a client loses because it has reached a limit.
func (h *access) tellLoss(cl *mqtt.Client, limit, text string, args ...any) {
	h.tell(text, string(cl.Properties.Username), cl.Net.Remote, text, append([]any{"limit", limit, "client", cl.ID}, args...)...)
}
