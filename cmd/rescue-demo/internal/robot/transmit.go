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
		r.note(hold)
		r.stream(ctx, hold)
		r.note(hold)
		if errors.Is(hold.Unlock(), qosmutex.ErrLost) {
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
	// noteEvery is how exactly a journal knows the end of a hold that was not given
	// back: what overlaps for less may go unseen.
	noteEvery = 5 * time.Millisecond
)

// note writes into the journal, if there is one, that the hold is valid. The time
// is taken first: the hold passed Check after it, however long the robot slept in
// between.
func (r *robot) note(hold *qosmutex.Hold) {
	if r.Journal == nil {
		return
	}
	if at := time.Now(); hold.Check() == nil {
		r.Journal(Sighting{hold.Resource(), hold.Fence(), at})
	}
}

// stream sends frames until they make up a transmission, the hold is lost or ctx
// ends. Without radio contact no time on the air passes; a robot that stays in a
// shadow loses its hold after the session's time-to-live.
func (r *robot) stream(ctx context.Context, hold *qosmutex.Hold) {
	airtime := r.Scenario.RealTime(r.Scenario.Transmission)
	every := max(airtime/framesPerEntry, frameEvery)
	tick := time.NewTicker(every)
	defer tick.Stop()
	note := time.NewTicker(noteEvery)
	defer note.Stop()
	for number := 1; ; {
		select {
		case <-note.C:
			r.note(hold)
			continue
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
	at, ground := *r.place.Load(), r.World.Area()
	frame := camera.Frame{
		Frequency: hold.Resource(), Robot: r.report.Robot, Fence: hold.Fence(), Number: number,
		Survivors: len(ground.Seen(at)), Picture: camera.Shoot(ground, at),
	}
	// The picture took time: whether the frequency is still ours counts now.
	return hold.Check() == nil && r.frames.Write(ctx, frame) == nil
}
