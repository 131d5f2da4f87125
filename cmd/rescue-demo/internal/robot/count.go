package robot

import (
	"context"
	"encoding/json"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
	"padme/pubsub"
)

// countEvery is how often a robot publishes its count.
const countEvery = time.Second

// Count is how many lock messages of the kinds that the papers count a robot has
// sent in its present life, and which models are in force as far as it knows. Robots
// publish it as JSON on the raw topic that CountTopic names.
type Count struct {
	Incarnation uint64 `json:"incarnation"`
	Messages    uint64 `json:"messages"`
	Models      string `json:"models"`
}

// CountTopic returns the levels of the topic of a robot's count; "+": of all.
func CountTopic(robot string) []string { return []string{"show", "count", robot} }

func (r *robot) count(ctx context.Context) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		text, _ := json.Marshal(Count{r.p.Incarnation(), scenario.Messages(r.topic.Status().Counters), r.topic.Models().String()})
		// A count that does not get out is made up for by the next one.
		_ = r.p.PublishRaw(pubsub.Side, CountTopic(r.report.Robot), text, false)
	}
}
