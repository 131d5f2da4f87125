package broker

import (
	"context"
	"log/slog"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// logHandler passes mochi's log on: its chatter as debug, and of a packet, which
// may hold a password, no more than type and topic.
type logHandler struct{ inner slog.Handler }

// level lowers what mochi thinks of its messages. Its warnings are about single
// clients, among them every keepalive of five seconds or less.
func level(l slog.Level) slog.Level {
	switch {
	case l >= slog.LevelError:
		return l
	case l >= slog.LevelWarn:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

func (h *logHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.inner.Enabled(ctx, level(l))
}

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	lowered := slog.NewRecord(r.Time, level(r.Level), r.Message, r.PC)
	if r.Message == mqtt.ErrMinimumKeepalive.Error() || r.Message == "publish packet error" { // access has told the latter
		lowered.Level = slog.LevelDebug
		if !h.inner.Enabled(ctx, slog.LevelDebug) {
			return nil
		}
	}
	r.Attrs(func(a slog.Attr) bool {
		lowered.AddAttrs(redact(a))
		return true
	})
	return h.inner.Handle(ctx, lowered)
}

func redact(a slog.Attr) slog.Attr {
	pk, ok := a.Value.Any().(packets.Packet)
	if p, isPointer := a.Value.Any().(*packets.Packet); isPointer {
		pk, ok = *p, true
	}
	if !ok {
		return a
	}
	return slog.Group(a.Key, "type", packets.PacketNames[pk.FixedHeader.Type], "topic", pk.TopicName)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = redact(a)
	}
	return &logHandler{inner: h.inner.WithAttrs(clean)}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{inner: h.inner.WithGroup(name)}
}
