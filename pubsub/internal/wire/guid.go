package wire

import (
	"cmp"
	"strconv"
)

// A GUID names a writer or reader for as long as its participant's process lives.
type GUID struct {
	Participant string
	Incarnation uint64
	Endpoint    string // unique within the participant
}

// String returns participant~incarnation/endpoint.
func (g GUID) String() string {
	return g.Participant + "~" + strconv.FormatUint(g.Incarnation, 36) + "/" + g.Endpoint
}

// Compare orders GUIDs; all participants find the same order.
func (g GUID) Compare(o GUID) int {
	return cmp.Or(cmp.Compare(g.Participant, o.Participant), cmp.Compare(g.Incarnation, o.Incarnation), cmp.Compare(g.Endpoint, o.Endpoint))
}
