package classic

import (
	"errors"

	"padme/qosmutex/protocol"
	"padme/qosmutex/static"
)

// turn names a request by its place in Lamport's total order: by the clock at which
// it was made, then by participant. The zero turn is nobody's, for clocks of
// requests start at 1.
type turn struct {
	clock uint64
	who   int
}

func (t turn) isZero() bool { return t.clock == 0 }

func (t turn) before(o turn) bool {
	return t.clock < o.clock || t.clock == o.clock && t.who < o.who
}

// What a core refuses. A core checks everything before it changes anything.
var (
	errKind   = errors.New("a kind that the algorithm does not know")
	errSender = errors.New("not from one who may send it")
	errOrigin = errors.New("about a request of somebody else")
	errRepeat = errors.New("a request that is not newer than the last one")
	errAsked  = errors.New("asks again before the end of the last request")
	errNobody = errors.New("nobody waits for it")
	errTwice  = errors.New("there cannot be a second one")
)

// clockOf checks that m is about a request of participant who, and returns the
// clock that names it.
func clockOf(env *static.Env, who int, m *protocol.Message) (uint64, error) {
	if i, ok := env.Index(m.ID.Node); !ok || i != who || m.ID.Clock == 0 {
		return 0, errOrigin
	}
	return m.ID.Clock, nil
}

// name is a turn as messages carry it.
func name(env *static.Env, t turn) protocol.RequestID {
	return protocol.RequestID{Node: env.Node(t.who), Clock: t.clock}
}
