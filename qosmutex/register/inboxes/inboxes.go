// Package inboxes runs the voters and clients of package quorum over MQTT: their
// messages travel through the inboxes of pubsub's participants. A voter has the id of
// its participant, and with access rules the broker vouches for it.
package inboxes

import (
	"padme/pubsub"
	"padme/qosmutex/register/quorum"
)

// Channel is the inbox channel of all messages of registers.
const Channel = "register"

// transport sends at MQTT QoS 0: voters and clients repeat what is not answered.
type transport struct{ p *pubsub.Participant }

func (t transport) Send(to string, message []byte) error { return t.p.Post(to, Channel, message) }

// Voter is a voter at a participant.
type Voter struct {
	*quorum.Voter
	stop func()
}

// Start starts a voter at a participant, whose id is the voter's name; opts.Self is
// ignored. A participant has one voter or one client. The participant must not be
// closed before the voter.
func Start(p *pubsub.Participant, opts quorum.Options) (*Voter, error) {
	opts.Self = p.ID()
	box := &box{}
	stop, err := p.Inbox(Channel, box.message)
	if err != nil {
		return nil, err
	}
	v, err := quorum.Start(opts, transport{p})
	if err != nil {
		stop()
		return nil, err
	}
	box.open(v.Receive)
	return &Voter{v, stop}, nil
}

// Close stops the voter and frees its file.
func (v *Voter) Close() error {
	v.stop()
	return v.Voter.Close()
}

// Client is a client at a participant.
type Client struct {
	*quorum.Client
	stop func()
}

// NewClient returns a client of the given voters at a participant that is none of
// them.
func NewClient(p *pubsub.Participant, voters []string, timing quorum.Timing) (*Client, error) {
	c, err := quorum.NewClient(voters, timing, transport{p})
	if err != nil {
		return nil, err
	}
	stop, err := p.Inbox(Channel, func(l pubsub.Message) { c.Receive(l.From, l.Payload) })
	if err != nil {
		return nil, err
	}
	return &Client{c, stop}, nil
}

// Operator is an operator at a participant.
type Operator struct {
	*quorum.Operator
	stop func()
}

// NewOperator returns an operator at a participant that is neither a voter nor a client.
func NewOperator(p *pubsub.Participant) (*Operator, error) {
	o := quorum.NewOperator(transport{p})
	stop, err := p.Inbox(Channel, func(l pubsub.Message) { o.Receive(l.From, l.Payload) })
	if err != nil {
		return nil, err
	}
	return &Operator{o, stop}, nil
}

// Close has the operator hear nothing more. Calls in progress end with their contexts.
func (o *Operator) Close() { o.stop() }

// Close has the client hear nothing more. Calls in progress end with their contexts.
func (c *Client) Close() error {
	c.stop()
	return nil
}
