package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/caspaxos"
	"padme/qosmutex/register/internal/parts"
)

// Client is the register of a participant that is no voter: a voter that answers
// proposes on its behalf.
type Client struct {
	transport Transport
	timing    Timing
	callers   parts.Callers

	mu      sync.Mutex
	voters  []string
	number  uint32 // of the configuration that the voters are of
	prefer  int    // index of the voter that answered last
	lastSeq uint64
	domain  register.Domain
	since   time.Time // it knows domain
	waiting map[uint64]chan *caspaxos.Message
}

var _ register.Register = (*Client)(nil)

// NewClient returns a client of the given voters. The transport must call Receive for
// each message that arrives. A client that is no longer used needs no closing.
func NewClient(voters []string, timing Timing, t Transport) (*Client, error) {
	sorted, err := caspaxos.CheckVoters(voters)
	if err != nil {
		return nil, err
	}
	if timing == (Timing{}) {
		timing = LAN()
	}
	return &Client{
		transport: t, timing: timing, voters: sorted,
		lastSeq: register.NewNonce(), // no answer to an earlier run is taken for one
		waiting: map[uint64]chan *caspaxos.Message{},
	}, nil
}

// Receive takes a message of a voter, whose name the transport vouches for. It does
// not block, and keeps nothing of message.
func (c *Client) Receive(from string, message []byte) {
	msg, err := caspaxos.Decode(message)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.voters, from)
	if i < 0 {
		return
	}
	switch msg.Kind {
	case caspaxos.KindCurrent:
		if msg.Next.Number > c.number {
			c.voters, c.number, c.prefer = msg.Next.IDs(), msg.Next.Number, max(0, slices.Index(msg.Next.IDs(), from))
		}
	case caspaxos.KindReply:
		if waiting := c.waiting[msg.Seq]; waiting != nil {
			if msg.From = from; msg.Domain != c.domain {
				c.domain, c.since = msg.Domain, time.Now()
			}
			select {
			case waiting <- msg:
			default: // it has one already
			}
		}
	}
}

// Age returns for how long the client has known the domain of the voters.
func (c *Client) Age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.domain == (register.Domain{}) {
		return 0
	}
	return time.Since(c.since)
}

// Get returns the current value and version of a key. Calls that follow each other closely
// share messages.
func (c *Client) Get(ctx context.Context, key string) (register.Entry, error) {
	return c.callers.Get(ctx, key, limits, func(ctx context.Context, keys []string) ([]register.Entry, error) {
		reply, err := c.ask(ctx, &caspaxos.Message{Kind: caspaxos.KindRequest, Keys: keys})
		if err != nil {
			return nil, err
		}
		config := caspaxos.Config{Domain: reply.Domain}
		entries := make([]register.Entry, len(keys))
		for i := range entries {
			entries[i] = config.Entry(&reply.Outcomes[i])
		}
		return entries, nil
	})
}

// CompareAndSet makes writes. Those of different keys share messages and syncs, and single
// renewals of calls that follow each other closely do, too.
func (c *Client) CompareAndSet(ctx context.Context, writes ...register.Write) []register.Result {
	return c.callers.CompareAndSet(ctx, writes, limits, func(ctx context.Context, some []register.Write) ([]register.Result, error) {
		reply, err := c.ask(ctx, &caspaxos.Message{Kind: caspaxos.KindRequest, Writes: some})
		if err != nil {
			return nil, err
		}
		config := caspaxos.Config{Domain: reply.Domain}
		results := make([]register.Result, len(some))
		for i := range some {
			results[i] = config.Result(&some[i], &reply.Outcomes[i])
		}
		return results, nil
	})
}

// ask sends a request to one voter after the other until one answers.
func (c *Client) ask(ctx context.Context, request *caspaxos.Message) (*caspaxos.Message, error) {
	failure := &register.Unavailable{}
	if failure.Cause = ctx.Err(); failure.Cause != nil {
		return nil, failure
	}
	replies := make(chan *caspaxos.Message, 1)
	c.mu.Lock()
	c.lastSeq++
	request.Seq = c.lastSeq
	c.waiting[request.Seq] = replies
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, request.Seq)
		c.mu.Unlock()
	}()
	expected := len(request.Keys) + len(request.Writes)
	silent := map[string]bool{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for tries := 0; ; tries++ {
		c.mu.Lock()
		to, voters := c.voters[c.prefer%len(c.voters)], len(c.voters)
		request.Config = c.number
		c.mu.Unlock()
		// A voter that cannot ask the others answers in time for another one to be tried.
		patience := 10 * c.timing.Resend << min(tries/voters, 3)
		asked, within := time.Now(), patience
		if end, ok := ctx.Deadline(); ok {
			within = max(min(within, end.Sub(asked)), 1)
		}
		request.Within = caspaxos.Time(within)
		silent[to] = true
		_ = c.transport.Send(to, caspaxos.AppendMessage(nil, request)) // a loss
		failure.Unknown = len(request.Writes) > 0
		timer.Reset(patience + patience/2)
		select {
		case reply := <-replies:
			delete(silent, reply.From)
			switch {
			case reply.Large:
				return nil, parts.ErrLarge
			case !reply.Failed && len(reply.Outcomes) == expected:
				c.answered(reply.From)
				return reply, nil
			}
			failure.Missing = reply.Missing
			if (tries+1)%voters == 0 { // all have failed: not again at once
				timer.Reset(c.timing.Resend)
				select {
				case <-timer.C:
				case <-ctx.Done(): // the next loop says so
				}
			}
		case <-timer.C:
		case <-ctx.Done():
			if failure.Cause = ctx.Err(); failure.Missing == nil {
				for id := range silent {
					failure.Missing = append(failure.Missing, id)
				}
				slices.Sort(failure.Missing)
			}
			if time.Since(asked) >= c.timing.Resend { // whoever asks may never have more patience
				c.leave(to)
			}
			return nil, failure
		}
		c.leave(to)
	}
}

func (c *Client) answered(voter string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.voters, voter); i >= 0 {
		c.prefer = i
	}
}

// leave has the next request go to another voter, if that is not so already.
func (c *Client) leave(voter string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.voters[c.prefer%len(c.voters)] == voter {
		c.prefer++
	}
}
