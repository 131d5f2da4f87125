package broker

import (
	"testing"

	mqtt "github.com/mochi-mqtt/server/v2"
)

// Whoever takes a session over inherits its wide filters a moment later: meanwhile the user's other
// sessions get no room for theirs.
func TestWideFiltersOfATakeoverCount(t *testing.T) {
	for name, c := range map[string]struct {
		clean, keeps bool
		wides        int
	}{
		"kept":              {keeps: true, wides: 3},
		"of the connection": {wides: 3},
		"that begins anew":  {clean: true},
		"kept, begins anew": {clean: true, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := func() *mqtt.Client {
				cl := mqtt.New(nil).NewClient(nil, "", "id", false)
				cl.Properties.ProtocolVersion, cl.Properties.Clean = 5, c.clean
				if c.keeps {
					cl.Properties.Props.SessionExpiryInterval = 60
				}
				return cl
			}
			of := &usage{all: new(int64), sessions: map[string]*session{"id": {cl: client(), kept: c.keeps, wide: true, wides: 3}}}
			of.hold(client())
			if s := of.sessions["id"]; s.wides != c.wides || s.wide != (c.keeps || c.wides > 0) {
				t.Errorf("%+v", s)
			}
		})
	}
}
