//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"padme/broker"
	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/address"
	"padme/tests/extent"
	"padme/tests/poll"
	"padme/tests/process"
)

// TestDirectWebSocket: the page connects to the broker's own WebSocket listener.
func TestDirectWebSocket(t *testing.T) {
	extent.Long(t, "several connections")
	t.Parallel()
	ws := address.Free(t)
	b := startEmbedded(t, "127.0.0.1:0", ws)
	m := join(t, b.URL(), "tower", "crane", qosmutex.Create(), qosmutex.WithResources("north"))
	m.lock("north", 7)
	p := startBrowser(t).open(startUI(t, "ws://"+ws), desktop)
	p.await("%s?.dataset.holder === 'tower'", row("crane", "north"))
	if all := p.complaints(); len(all) != 1 || all[0] != "another host: ws://"+ws+"/" {
		t.Errorf("the browser complains: %q, want that it connects to ws://%s", all, ws)
	}
}

// TestBrokerWithUsers: the page asks for the password of its user, and says what a
// broker with users does not show.
func TestBrokerWithUsers(t *testing.T) {
	extent.Long(t, "several logins")
	t.Parallel()
	var users broker.Users
	for name, role := range map[string]broker.Role{"tower": broker.Member, "lift": broker.Member, "panel": broker.Observer} {
		if err := users.Add(name, name); err != nil {
			t.Fatal(err)
		}
		if err := users.Grant(name, role); err != nil {
			t.Fatal(err)
		}
	}
	b, err := broker.Start(t.Context(), broker.Config{TCP: "127.0.0.1:0", Users: &users})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(b.Close) })
	as := func(name string) []pubsub.Option { return []pubsub.Option{pubsub.WithCredentials(name, name)} }
	tower := joinAs(t, b.URL(), "tower", "crane", as("tower"), qosmutex.Create(), qosmutex.WithResources("north"), qosmutex.WithNodePriority(0))
	joinAs(t, b.URL(), "lift", "crane", as("lift"))
	tower.lock("north", 7)
	p := startBrowser(t).open(startUI(t, b.URL(), "--user", "panel"), desktop)
	for _, password := range []string{"wrong", "panel"} {
		p.await("document.querySelector('dialog')?.textContent.includes('Password of panel') && document.activeElement.type === 'password'")
		p.typed(password)
		p.press("Enter")
		p.await("!document.querySelector('dialog') || document.activeElement.value === ''")
	}
	p.await("%s?.dataset.holder === 'tower'", row("crane", "north"))
	p.await("document.querySelectorAll('.tree .node').length === 2")
	p.await("!document.querySelector('#tree-note').hidden && document.querySelector('#tree-note').textContent.includes('cannot be drawn')")
	p.quiet()
}

// TestHostileNames: whatever others call themselves and their locks is text.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, "127.0.0.1:0", "")
	const evil = `<img src=x onerror="document.title='owned'">'"&` + "\u202e\u200b"
	const shown = `<img src=x onerror="document.title='owned'">'"&\u{202e}\u{200b}`
	c := &crowd{T: t}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var err error
	if c.p, err = pubsub.Join(ctx, b.URL(), "liar"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(c.p.Close) })
	since := time.Now()
	c.publish([]string{"presence", evil}, map[string]any{"alive": true, "incarnation": "1", "epoch": "1", "since": since})
	c.publish([]string{"lock", evil, "member", evil}, qosmutex.Member{Topic: evil, Participant: evil, Incarnation: 1, Role: "root", Epoch: crowdEpoch})
	c.publish([]string{"lock", evil, "view"}, qosmutex.View{Topic: evil, Epoch: crowdEpoch, Root: evil, Models: evil, Members: 1})
	c.publish([]string{"lock", evil, evil, "state"}, qosmutex.State{Topic: evil, Resource: evil, Holder: evil, Fence: evil, Epoch: crowdEpoch, Root: evil, Waiting: 1, Queue: []qosmutex.Waiter{{Participant: evil}}})
	c.publish([]string{"lock", "crane", "north", "state"}, []int{1})
	p := startBrowser(t).open(startUI(t, b.URL()), desktop)
	p.await("document.querySelectorAll('.row').length === 1 && document.querySelectorAll('.tree .node').length === 1")
	event, _ := json.Marshal(qosmutex.Event{Event: evil, Topic: evil, Resource: evil, Participant: evil, Models: evil, Reason: evil, At: since})
	for p.reaches(time.Second, "document.querySelectorAll('#history li').length > 0") != nil && ctx.Err() == nil {
		if err := c.p.PublishRaw(pubsub.Side, []string{"lock", evil, "events"}, event, false); err != nil {
			t.Fatal(err)
		}
	}
	p.press("ArrowDown")
	p.press("Enter")
	p.await("document.querySelector('#holder')?.textContent === %q", shown)
	p.click("nav a[data-view=people]")
	p.await("document.querySelectorAll('#people li').length === 2")
	p.click("nav a[data-view=tree]")
	p.await("document.querySelectorAll('.tree .node title').length === 1")
	if raw := p.text(`/[\u202e\u200b]/.test(document.body.textContent + [...document.querySelectorAll("[aria-label]")].map((e) => e.ariaLabel))`); raw != "false" {
		t.Error("the page shows characters that turn the text, or cannot be seen")
	}
	if title := p.text("document.title"); title != "Locks" {
		t.Errorf("a name has changed the title to %q", title)
	}
	if n := p.text("document.querySelectorAll('img').length"); n != "0" {
		t.Errorf("%s names became pictures", n)
	}
	p.quiet()
}

// TestMosquitto: the page works with a broker that is not ours, by the bridge and by
// the broker's own WebSocket listener.
func TestMosquitto(t *testing.T) {
	extent.Long(t, "another broker")
	t.Parallel()
	program := process.Need(t, "apt-get install mosquitto", "mosquitto")
	addr, ws := address.Free(t), address.Free(t)
	_, port, _ := net.SplitHostPort(addr)
	_, wsPort, _ := net.SplitHostPort(ws)
	config := filepath.Join(t.TempDir(), "mosquitto.conf")
	text := fmt.Sprintf("listener %s 127.0.0.1\nset_tcp_nodelay true\nlistener %s 127.0.0.1\nprotocol websockets\nallow_anonymous true\nuser root\n", port, wsPort)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, program, "-c", config)
	for _, a := range []string{addr, ws} {
		poll.Within(t, patience, "mosquitto serves", func() bool {
			conn, err := net.Dial("tcp", a)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
	}
	url := "mqtt://" + addr
	tower := join(t, url, "tower", "crane", qosmutex.Create(), qosmutex.WithResources("146.520", "south"), qosmutex.WithNodePriority(0))
	lift := join(t, url, "lift", "crane", qosmutex.WithNodePriority(1))
	lift.lock("146.520", 7)
	chromium := startBrowser(t)
	var pages []*page
	for _, where := range []string{url, "ws://" + ws} {
		p := chromium.open(startUI(t, where), desktop)
		p.await("%s?.dataset.holder === 'lift'", row("crane", "146.520"))
		p.await("board.tree.edges.size === 1")
		pages = append(pages, p)
	}
	tower.lock("south", 1)
	for _, p := range pages {
		p.await("%s?.dataset.holder === 'tower'", row("crane", "south"))
		agree(t, p, url)
	}
}

// TestOddMessage: a message that the page fails at is the only one that it misses.
func TestOddMessage(t *testing.T) {
	t.Parallel()
	b := startEmbedded(t, "127.0.0.1:0", "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := pubsub.Join(ctx, b.URL(), "somebody")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(p.Close) })
	c := &crowd{T: t, p: p}
	state := func(resource string) {
		c.publish([]string{"lock", "crane", resource, "state"}, qosmutex.State{Topic: "crane", Resource: resource, Epoch: crowdEpoch})
	}
	page := startBrowser(t).open(startUI(t, b.URL()), desktop)
	page.await("globalThis.board && document.querySelector('#connection').dataset.state === 'connected'")
	state("first")
	page.await("document.querySelectorAll('.row').length === 1")
	page.eval("board.locks.apply = () => { delete board.locks.apply; throw new Error('odd') }", nil)
	state("odd")
	page.await("!Object.hasOwn(board.locks, 'apply')")
	state("last")
	page.await("document.querySelectorAll('.row').length > 1")
	if n := page.text("document.querySelector('#connection').dataset.session"); n != "1" {
		t.Errorf("the page connected %s times", n)
	}
}
