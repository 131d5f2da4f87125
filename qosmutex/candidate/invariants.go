package candidate

import "errors"

// CheckInvariants returns what cannot be true of a correct machine, or nil.
func (m *Machine) CheckInvariants() error {
	if err := m.Machine.CheckInvariants(); err != nil {
		return err
	}
	if err := m.lease.CheckInvariants(); err != nil {
		return err
	}
	switch l := m.lease.Status(); {
	case len(m.told) > 0: // one part has not heard yet what the other knows
	case m.ActsUntil() != 0 && !l.Acting:
		return errors.New("it acts as the root, and has no lease")
	case m.ActsUntil() > l.Until:
		return errors.New("it acts as the root for longer than its lease")
	}
	return nil
}
