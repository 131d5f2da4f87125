package qosmutex

import "padme/qosmutex/protocol"

// maxNodes bounds the participants whose incarnations are remembered for the sake
// of their wills.
const maxNodes = 1 << 16

// watchWills tells the machine which participants the broker believes to have
// ended. It returns when the topic or the participant ends.
func (t *Topic) watchWills() {
	for presence, err := range t.p.Peers(t.ctx) {
		switch {
		case err != nil:
			t.log.Info("last wills are not followed any more", "error", err)
			return
		case !presence.Alive:
			t.willOf(presence.ID, presence.Incarnation)
		}
	}
}

// willOf suspects the member that a participant was by which the topic was opened.
// A member that is younger than any will is not meant by it: who was started again
// does not die with what it was before.
func (t *Topic) willOf(id string, participant uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	incarnation, met := t.nodes[id]
	if t.ended || !met || incarnation < participant {
		return
	}
	_ = t.step(protocol.Input{Kind: protocol.Suspect, Node: protocol.Node{ID: id, Incarnation: incarnation}})
}

// met remembers who takes part, if wills are followed.
func (t *Topic) met(n protocol.Node) {
	if t.trust && n.Incarnation > t.nodes[n.ID] && (len(t.nodes) < maxNodes || t.nodes[n.ID] != 0) {
		t.nodes[n.ID] = n.Incarnation
	}
}
