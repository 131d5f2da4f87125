package discovery

import (
	"padme/internal/wait"
	"padme/pubsub/internal/connection"
)

// forgetAfter: after a reconnection a broker that lost its memory does not
// tell who died. Who has not announced itself again by then is dead; it is
// longer than anybody's back-off and attempt to connect.
const forgetAfter = connection.MaxBackoff + connection.ConnectTimeout

// returned follows a reconnection: what was closed meanwhile is to be found out, and who
// has died.
func (d *Directory) returned() {
	d.net.Start(d.forgetUnseen)
	d.net.Start(d.forgetMissing)
	for id, p := range d.peers {
		if p.watch != nil {
			d.doubtAgain(id, p.watch)
		}
	}
	d.askUnlessTold(d.askAgain)
}

// askAgain puts the questions of all that is followed.
func (d *Directory) askAgain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.following {
		d.Ask()
	}
	for topic := range d.topics {
		d.askTopic(topic)
	}
}

// forgetUnseen takes those for dead whose presence does not come on this connection.
func (d *Directory) forgetUnseen() {
	ctx, cancel := d.net.Connected(d.Context)
	defer cancel()
	if !wait.Sleep(ctx, forgetAfter) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.peers {
		if p.connection != d.connection {
			d.presume(p)
		}
	}
}

// forgetMissing forgets what the broker did not return although its participant is as it
// was: it was closed. Who died, or has yet to come back itself, is told by its presence.
func (d *Directory) forgetMissing() {
	if d.Unannounced {
		return
	}
	ctx, cancel := d.net.Connected(d.Context)
	defer cancel()
	connection, born := d.present()
	select {
	case <-born:
	case <-ctx.Done():
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connection != connection || !d.recalls { // what came is out of date
		return
	}
	d.forgetAll(func(p *peer, e *Remote) bool {
		return e.connection != connection && p.connection == connection && p.current(e)
	}, true)
}

// present returns the number of the present connection, and what is closed when all has
// arrived that the broker kept for what that has begun with: the birth is published after
// that, and delivered in order.
func (d *Directory) present() (connection int, born <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.connection, d.self.born
}
