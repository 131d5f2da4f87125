package robot

import (
	"context"
	"errors"
	"time"

	"padme/cmd/rescue-demo/internal/camera"
	"padme/qosmutex"
)

// transmit locks any frequency, sends for a transmission time and gives it back,
// again and again until ctx ends.
func (r *robot) transmit(ctx context.Context) error {
	for {
		hold, err := r.topic.Lock(ctx, qosmutex.Any)
		switch {
		case ctx.Err() != nil && hold == nil:
			return nil
		case err != nil:
			return err
		}
		r.report.Entries++
		r.stream(ctx, hold)
		if errors.Is(hold.Unlock(ctx), qosmutex.ErrLost) {
			r.report.Losses++
		}
	}
}

// Frames go over another connection than the lock. A robot is silent for
// frameEvery before it gives a frequency back, and as long again when it has got
// one, so that its last frame arrives before the next one's first.
const (
	framesPerEntry = 10
	frameEvery     = 50 * time.Millisecond // at least
)

// stream sends frames until they make up a transmission, the hold is lost or ctx
// ends. Without radio contact no time on the air passes; a robot that stays in a
// shadow loses its hold after the session's time-to-live.
func (r *robot) stream(ctx context.Context, hold *qosmutex.Hold) {
	airtime := r.Scenario.RealTime(r.Scenario.Transmission)
	every := max(airtime/framesPerEntry, frameEvery)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for number := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-hold.Context().Done():
			return
		case <-tick.C:
		}
		if !r.p.Connected() {
			continue
		}
		if number > 1 && time.Duration(number)*every > airtime {
			return
		}
		if r.send(ctx, hold, number) {
			r.report.Frames++
		}
		number++
	}
}

// send takes a picture and puts it on the air. It reports whether it was sent.
func (r *robot) send(ctx context.Context, hold *qosmutex.Hold, number int) bool {
	at := *r.place.Load()
	frame := camera.Frame{
		Frequency: hold.Resource(), Robot: r.report.Robot, Fence: hold.Fence(), Number: number,
		Survivors: len(r.area.Seen(at)), Picture: camera.Shoot(r.area, at),
	}
	// The picture took time: whether the frequency is still ours counts now.
	return hold.Check() == nil && r.frames.Write(ctx, frame) == nil
}
