package camera

import (
	"context"

	"padme/pubsub"
)

// quality of both ends: a frame is worth nothing when it is late, so it is sent
// once, and of those that wait for a slow reader the latest of each frequency
// are kept.
var quality = pubsub.WithQoS(pubsub.QoS{Reliability: pubsub.BestEffort, History: pubsub.KeepLast, Depth: 64})

// NewWriter makes a writer of frames for p.
func NewWriter(ctx context.Context, p *pubsub.Participant) (*pubsub.Writer[Frame], error) {
	t, err := pubsub.NewTopic[Frame](p, Topic)
	if err != nil {
		return nil, err
	}
	return pubsub.NewWriter(ctx, t, quality)
}

// NewReader makes a reader of all frequencies' frames for p.
func NewReader(ctx context.Context, p *pubsub.Participant) (*pubsub.Reader[Frame], error) {
	t, err := pubsub.NewTopic[Frame](p, Topic)
	if err != nil {
		return nil, err
	}
	return pubsub.NewReader(ctx, t, quality)
}
