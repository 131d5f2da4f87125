package broker

// Reached returns, by the name of its flag of "pubsub-node broker", each limit that somebody has gone
// beyond since Start, and how often.
func (b *Broker) Reached() map[string]int64 {
	if b.made() != nil {
		return nil
	}
	reached := map[string]int64{}
	b.reached.each(func(limit string, n int64) {
		if n > 0 {
			reached[limit] = n
		}
	})
	return reached
}
