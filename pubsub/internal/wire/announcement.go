package wire

// An Announcement tells what stands on R/presence/{P}, or, with the name of
// an endpoint, on R/ep/{topic}/{P}/{endpoint}, of the sender.
type Announcement struct {
	Endpoint string // "" for the presence
	Payload  []byte // as retained; empty: there is none
	Topic    string // of the endpoint; with the presence, of which all is said, "" for every one

	// All are the endpoints that there are, with the presence: who was away when one
	// was closed finds nothing where it stood. Listed is false if nothing is said.
	All    map[string]bool
	Listed bool
}

// Encode returns the message of the participant whose incarnation sender is.
func (a *Announcement) Encode(sender uint64) []byte {
	body := appendBin(appendStr(make([]byte, 0, 24+len(a.Endpoint)+len(a.Payload)+len(a.Topic)), a.Endpoint), a.Payload)
	body = appendStr(body, a.Topic)
	if a.Listed {
		body = append(body, 0xdc, byte(len(a.All)>>8), byte(len(a.All)))
		for name := range a.All {
			body = appendStr(body, name)
		}
	}
	e := Envelope{Kind: KindAnnounce, Epoch: sender, Body: body}
	return Append(make([]byte, 0, len(body)+32), &e)
}

// ParseAnnouncement reads the body of a KindAnnounce envelope.
func ParseAnnouncement(b []byte) (a Announcement, err error) {
	name, b, err := readBytes(b)
	if err != nil || len(name) > MaxName {
		return a, ErrMsgpack
	}
	a.Endpoint = string(name)
	if a.Payload, b, err = readBytes(b); err != nil {
		return a, err
	}
	name, b, err = readBytes(b)
	a.Topic = string(name)
	if err != nil || len(b) == 0 {
		return a, err
	}
	n, b, err := readArray(b)
	a.All = map[string]bool{}
	for range n {
		if name, b, err = readBytes(b); err != nil {
			return a, err
		}
		a.All[string(name)] = true
	}
	a.Listed = err == nil
	return a, err
}
