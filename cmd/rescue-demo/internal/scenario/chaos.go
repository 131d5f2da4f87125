package scenario

import (
	"errors"
	"fmt"
	"time"

	"padme/qosmutex"
)

// A run under chaos has three parts: everybody gets going, faults happen, and in
// the calm at its end everybody who lives must be served.
const (
	WarmUp    = 3 * time.Second // the lock topic is created and robots have joined
	minFaults = 8 * time.Second // room for one fault of every kind
)

// ChaosModels are those of a run under chaos before the switch. With Use, under fair,
// a participant that uses what passes enters more often than others and numbers its
// requests ahead of theirs, so that more time is needed until everybody is served.
var ChaosModels = qosmutex.Models{Priority: qosmutex.Level, Request: qosmutex.RequestReplace, Reply: qosmutex.Forward, Release: qosmutex.Forward}

const (
	// BackOff is the longest wait between two attempts of a participant to connect.
	BackOff = 5 * time.Second
	// comeback bounds how long it takes to be back among the others once nothing
	// breaks any more: to connect, and to be rid of the sessions and roots of before.
	comeback = BackOff + 2*time.Second
)

// share is how many robots there are for each frequency.
func (c *Config) share() float64 {
	return max(1, float64(c.Robots)/float64(max(1, c.Frequencies)))
}

// Calm is how long the last part is: everybody comes back, and then everybody has
// a turn. Who enters while others are away numbers its requests ahead of theirs, and
// under fair waits until these have made up. They may have been away for BackOff.
// Half a turn more is for turns that end early or late.
func (c *Config) Calm() time.Duration {
	turn := float64(c.RealTime(c.Transmission)) * 1.5
	return comeback + time.Duration(c.share()*(float64(BackOff)+turn))
}

// lastSwitch is the latest time of the switch to fair after which everybody is
// served in the calm: under level the most important robots enter every time, which
// fair makes up for first.
func (c *Config) lastSwitch() time.Duration {
	return time.Duration(float64(c.Duration-c.Calm()) / (1 + c.share()))
}

func (c *Config) checkChaos() error {
	var errs []error
	if !c.Processes {
		errs = append(errs, errors.New("--chaos without --processes: give both, as only processes can be killed"))
	}
	if c.Broker != "" {
		errs = append(errs, errors.New("--chaos with --broker: give one of them, as the broker is killed and started again"))
	}
	calm := c.Calm().Round(100 * time.Millisecond)
	if least := WarmUp + minFaults + calm; c.Duration < least {
		errs = append(errs, fmt.Errorf("--duration %v: give at least %v with --chaos: the last %v are for serving everybody", c.Duration, least, calm))
	} else if last := c.lastSwitch(); c.SwitchAt > last {
		errs = append(errs, fmt.Errorf("--switch-at %v: give at most %v with --chaos: later, fair has not made up for level when the calm begins", c.SwitchAt, last.Round(100*time.Millisecond)))
	}
	return errors.Join(errs...)
}
