package main

import (
	"context"
	"fmt"
	"os"

	"padme/pubsub"
)

// tellShapes tells on standard error what happens to a reader, by the names that the
// suite's listeners have.
func tellShapes(ctx context.Context, r *pubsub.Reader[shape], topic string) {
	for event, err := range r.Events(ctx) {
		if err != nil {
			return
		}
		what := ""
		switch e := event.(type) {
		case pubsub.Matched:
			what = "subscription_matched() " + e.Peer.String()
		case pubsub.Unmatched:
			what = "subscription_unmatched() " + e.Peer.String()
		case pubsub.IncompatibleQoS:
			what = "requested_incompatible_qos() " + e.Policy
		case pubsub.InconsistentTopic:
			what = "inconsistent_topic() " + e.Type
		case pubsub.RequestedDeadlineMissed:
			what = "requested_deadline_missed()"
		case pubsub.LivelinessChanged:
			what = fmt.Sprintf("liveliness_changed() alive %d, not alive %d", e.AliveWriters, e.NotAliveWriters)
		case pubsub.SampleLost:
			what = fmt.Sprintf("sample_lost() %d", e.Count)
		case pubsub.SampleRejected:
			what = "sample_rejected() " + e.Err.Error()
		default:
			continue
		}
		fmt.Fprintln(os.Stderr, printable(fmt.Sprintf("on_%s topic %s", what, topic)))
	}
}
