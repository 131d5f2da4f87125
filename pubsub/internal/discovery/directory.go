// Package discovery finds out who takes part in a domain, and brings the writers and
// readers of one participant together with those of others: its own presence and those of
// others, what is announced, which endpoints match, and what is to be forgotten. It knows
// neither samples nor how they are delivered.
package discovery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"padme/internal/throttle"
	"padme/internal/wait"
	"padme/pubsub/internal/connection"
	"padme/pubsub/internal/drop"
	"padme/pubsub/internal/wire"
)

// Config says whose directory it is.
type Config struct {
	ID, Level   string // of the participant, and as a level of topics
	Root        string // what all topics of the domain begin with
	URL         string // of the broker, for errors
	Incarnation uint64
	UserData    map[string]string
	Takeover    bool // see pubsub.WithTakeover
	Unannounced bool // see pubsub.Unannounced
	Log         *slog.Logger
	Context     context.Context // ends with the participant, whose end is its cause
}

// A Network is what a directory needs of its participant. No method blocks, but for
// Subscribe and CaughtUp, which are called with no mutex held.
type Network interface {
	Put(p connection.Packet) error            // on the main connection
	Post(to string, message []byte)           // to an inbox; may lose it
	Start(f func()) bool                      // runs f until the participant ends; false: it has
	End(why error)                            // ends the participant
	Drop(r drop.Reason, at string, err error) // counts a message that is of no use
	// Subscribe blocks until the broker has granted a filter. handler is called with what
	// follows the root.
	Subscribe(ctx context.Context, filter string, handler func(topic string, payload []byte, retained bool)) (stop func(), err error)
	// Connected returns a context that ends with the main connection of the present.
	Connected(ctx context.Context) (context.Context, context.CancelFunc)
	// CaughtUp blocks until all has arrived that the broker keeps for the subscriptions
	// granted so far on the main connection.
	CaughtUp(ctx context.Context) error
}

// An Endpoint is a writer or reader of this participant. Its methods are called with the
// directory's mutex held: they must neither block nor call the directory.
type Endpoint interface {
	// Matched and Updated: the two match; they did already, and the other has changed its
	// policies or announced itself on another connection. change is how often ours have
	// changed.
	Matched(e *Remote, change uint64)
	Updated(e *Remote, change uint64)
	Unmatched(g wire.GUID, died bool) // it was closed, or its participant died
	// EndedBefore: a matched writer was closed after a sample, maybe while we were away; its
	// participant is, too. Unmatched follows.
	EndedBefore(g wire.GUID, last uint64)
	Parted(g wire.GUID, ours bool)    // it does not match: any more if we have changed our policies, else maybe never did
	Mismatched(e *Remote, why string) // see Announcement.Mismatch; not for another partition
	// Settle follows a Join or Change, when all of the above is told. alive reports
	// whether a writer of the topic lives.
	Settle(alive func(wire.GUID) bool)
	End() // it is closed, of which others are about to be told
}

// A Directory is what one participant knows of its domain. It is made by New.
type Directory struct {
	Config
	net Network

	turn wait.Turn // of the one who begins to follow everybody

	mu       sync.Mutex
	self     self
	peers    map[string]*peer
	size     int                  // endpoints of all peers
	swept    time.Time            // when there was no room for more, and those of the dead made some
	toldFull throttle.Log[string] // for whom there is no room for more; "" for all
	heard    int                  // announcements and presences so far
	closed   bool

	count  int
	local  map[string]*Local            // by name
	topics map[string]map[string]*Local // by topic and name

	connection int                // counts those of the main lane, attempts too
	recalls    bool               // the broker returns retained messages for a wildcard
	following  bool               // all presences
	everyone   bool               // all topics too
	follow     map[string]*follow // by topic, "" for all
	survey     map[string]int     // by topic: readers that look who is there before they are
	watchers   map[*watcher]struct{}
	answered   map[asking]bool // questions answered within answerPause; true if put again since
}

// New makes a directory that knows nobody.
func New(c Config, n Network) *Directory {
	d := &Directory{
		Config: c, net: n, turn: wait.NewTurn(), peers: map[string]*peer{},
		local: map[string]*Local{}, topics: map[string]map[string]*Local{},
		follow: map[string]*follow{}, survey: map[string]int{}, watchers: map[*watcher]struct{}{}, answered: map[asking]bool{},
	}
	d.self.reset()
	return d
}

// peer is what is known of one participant.
type peer struct {
	Presence // the ID alone until it is heard
	known    bool
	// connection is that on which its presence came last.
	connection int
	endpoints  map[place]*Remote
	watch      *watch // of its presence; nil unless something of it may match something of ours
	fate       *fate  // not known to be true; nil for none
}

// place is where a participant announces an endpoint.
type place struct{ topic, name string }

// peer returns what is known of a participant, with a record that is new if there is none.
func (d *Directory) peer(id string) *peer {
	p := d.peers[id]
	if p == nil {
		p = &peer{Presence: Presence{ID: id}, endpoints: map[place]*Remote{}}
		d.peers[id] = p
	}
	return p
}

// prune forgets a participant of which nothing is known any more.
func (d *Directory) prune(p *peer) {
	if len(p.endpoints) == 0 && p.watch == nil && !p.known {
		delete(d.peers, p.ID)
	}
}

// alive reports whether an endpoint is known and its participant alive.
func (d *Directory) alive(topic string, g wire.GUID) bool {
	e := d.find(topic, g)
	return e != nil && d.peers[g.Participant].counts(e)
}

// find returns an endpoint of a topic, nil if it is not known.
func (d *Directory) find(topic string, g wire.GUID) *Remote {
	if p := d.peers[g.Participant]; p != nil {
		if e := p.endpoints[place{topic, g.Endpoint}]; e != nil && e.GUID == g {
			return e
		}
	}
	return nil
}

// Find returns an endpoint of a topic, nil if it is not known. It may be gone.
func (d *Directory) Find(topic string, g wire.GUID) *Remote {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.find(topic, g)
}

// Known counts the participants and endpoints that are remembered.
func (d *Directory) Known() (participants, endpoints int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.peers), d.size
}

// Standing calls f, which must not block, with who lives of the writers of a topic.
func (d *Directory) Standing(topic string, f func(alive func(wire.GUID) bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(func(g wire.GUID) bool { return d.alive(topic, g) })
}

// Connecting follows that the main connection is about to be made. It returns the birth
// that is to be published on it, nil if there is none.
func (d *Directory) Connecting() *Birth {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.connection++
	if d.Unannounced {
		return nil
	}
	return d.begin()
}

// Changed follows the main connection, which may be used again or is lost. again is false
// for the first one.
func (d *Directory) Changed(up, again bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !up {
		d.lost()
		return
	}
	d.connected()
	if again {
		d.announceAll()
		d.returned()
	}
}
