//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/tests/address"
	"padme/tests/extent"
	"padme/tests/poll"
	"padme/tests/process"
)

// lag is how far the page may be behind what it shows: a claim is false if it was true at
// no moment of this time before it was seen.
const lag = 2500 * time.Millisecond

// span is a time during which something was so, in nanoseconds; to is 0 while it lasts.
type span struct{ from, to int64 }

// at reports whether a span has a moment between from and to.
func (s span) at(from, to int64) bool { return s.from <= to && (s.to == 0 || s.to >= from) }

// covers reports whether a span lasted from from to to.
func (s span) covers(from, to int64) bool { return s.from < from && (s.to == 0 || s.to > to) }

// life is a process that is killed and started again.
type life struct {
	id    string
	begin func() *process.Process

	*process.Process
	alive []span
	told  []string // what the runs before this one printed
}

func (l *life) start() {
	l.Process = l.begin()
	l.alive = append(l.alive, span{from: time.Now().UnixNano()})
}

func (l *life) end() {
	l.Kill()
	l.alive[len(l.alive)-1].to = time.Now().UnixNano()
	l.told = append(l.told, l.Printed())
}

func (l *life) dead() bool { return l.alive[len(l.alive)-1].to != 0 }

// deeds are the times during which a worker waited for a resource and held it, by fence.
type deeds struct {
	asked map[string][]span
	held  map[string]map[string]span
}

// deeds reads what a worker printed. What its last line began ends with the process.
func (l *life) deeds() deeds {
	d := deeds{map[string][]span{}, map[string]map[string]span{}}
	runs := l.told
	if !l.dead() {
		runs = append(runs[:len(runs):len(runs)], l.Printed())
	}
	for i, text := range runs {
		for line := range strings.Lines(text) {
			var what, resource, fence string
			var at int64
			n, _ := fmt.Sscan(line, &what, &resource, &at, &fence)
			if n < 3 || !strings.HasSuffix(line, "\n") {
				continue
			}
			d.note(what, resource, fence, at)
		}
		d.note("out", "", "", l.alive[i].to)
	}
	return d
}

// note takes a line of a worker; whatever it does, it ends what it did before.
func (d deeds) note(what, resource, fence string, at int64) {
	for _, spans := range d.asked {
		for i := range spans {
			if spans[i].to == 0 {
				spans[i].to = at
			}
		}
	}
	for _, spans := range d.held {
		for f, s := range spans {
			if s.to == 0 {
				s.to = at
				spans[f] = s
			}
		}
	}
	switch what {
	case "asks":
		d.asked[resource] = append(d.asked[resource], span{from: at})
	case "in":
		if d.held[resource] == nil {
			d.held[resource] = map[string]span{}
		}
		d.held[resource][fence] = span{from: at}
	}
}

// claims are what the page shows as certain.
type claims struct {
	Connected bool
	Rows      []struct {
		Resource, State, Holder, Fence, Queue string
	}
	Here []string // participants
}

// readClaims is the JavaScript that reads them. Without a live connection the page says of
// everything that it is old.
const readClaims = `(() => {
	const connected = document.querySelector("#connection").dataset.state === "connected";
	if (document.body.dataset.fresh !== "live") return { connected, rows: [], here: [] };
	const rows = [...document.querySelectorAll(".row[data-topic=crane]")].filter(r => !r.dataset.doubt).map(r => ({
		resource: r.dataset.resource, state: r.querySelector(".mark").textContent, holder: r.dataset.holder,
		fence: r.dataset.fence, queue: r.querySelector(".queue").textContent }));
	const here = [...document.querySelectorAll("#people li")].filter(l => l.querySelector(".tag").textContent === "here").map(l => l.dataset.id);
	return { connected, rows, here };
})()`

// scene is the processes that share a lock, and two pages that show it.
type scene struct {
	*testing.T
	url           string
	broker        *life
	roots         map[string]*life
	workers       map[string]*life
	locks, people *page

	seen, certain int
}

// TestPageIsTrue: while holders, waiters, roots and the broker are killed, the page claims
// nothing as certain that is not so. What is so, the processes say.
func TestPageIsTrue(t *testing.T) {
	extent.Long(t, "a minute of kills")
	t.Parallel()
	s := startScene(t)
	s.look(4)
	for range extent.Of(1, 2) {
		s.killHolder()
		s.look(9)
		s.killWaiter()
		s.look(9)
		s.killRoot()
		s.look(9)
		s.broker.end()
		s.look(2)
		s.killAnyone() // of whose death no broker tells
		s.look(2)
		s.broker.start()
		s.look(12)
	}
	t.Logf("%d looks, %d claims of rows judged", s.seen, s.certain)
	if s.certain < s.seen/2 {
		t.Error("the page was hardly ever certain: nothing was tested")
	}
}

func startScene(t *testing.T) *scene {
	t.Helper()
	extent.NotShort(t, "real processes")
	addr := address.Free(t)
	s := &scene{T: t, url: "mqtt://" + addr, roots: map[string]*life{}, workers: map[string]*life{}}
	data := t.TempDir()
	s.broker = &life{id: "broker", begin: func() *process.Process {
		p, _ := startReady(t, "pubsub-node", "broker", "--listen", addr, "--no-locks", "--data", data)
		return p
	}}
	s.broker.start()
	for _, id := range []string{"v1", "v2", "v3"} {
		files := t.TempDir()
		s.roots[id] = &life{id: id, begin: func() *process.Process {
			return start(t, "pubsub-node", "serve", "crane", "--broker", s.url, "--id", id, "--voters", "v1,v2,v3",
				"--data", files, "--ttl", truthTTL.String(), "--resources", strings.Join(truthResources, ","))
		}}
		s.roots[id].start()
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"w1", "w2", "w3", "w4"} {
		s.workers[id] = &life{id: id, begin: func() *process.Process {
			return start(t, "/usr/bin/env", workerEnv+"="+s.url+" "+id, self)
		}}
		s.workers[id].start()
	}
	poll.Within(t, patience, "all workers have had a lock", func() bool {
		for _, w := range s.workers {
			if len(w.deeds().held) == 0 {
				return false
			}
		}
		return true
	})
	board := startUI(t, s.url)
	b := startBrowser(t)
	s.locks, s.people = b.open(board, desktop), b.open(board+"#/people", desktop)
	s.locks.await("document.querySelectorAll('.row[data-topic=crane]').length === 2")
	s.people.await("document.querySelectorAll('#people li').length >= 7")
	return s
}

// look compares once a second, n times, and starts again who is dead after some seconds.
func (s *scene) look(n int) {
	s.Helper()
	for i := range n {
		for _, at := range []*page{s.locks, s.people} {
			from := time.Now()
			var c claims
			at.eval(readClaims, &c)
			s.judge(c, from.Add(-lag).UnixNano(), time.Now().UnixNano())
		}
		s.seen++
		if i == n-1 && !s.broker.dead() {
			s.revive()
		}
		time.Sleep(time.Second)
	}
}

// judge reports claims that were true at no moment between two.
func (s *scene) judge(c claims, from, to int64) {
	s.Helper()
	once := func(spans []span) bool {
		for _, a := range spans {
			if a.at(from, to) {
				return true
			}
		}
		return false
	}
	lie := func(format string, args ...any) {
		s.Helper()
		s.Errorf("after %d looks the page claims "+format, append([]any{s.seen}, args...)...)
	}
	if c.Connected && !once(s.broker.alive) {
		lie("to be connected, and there is no broker")
	}
	for _, id := range c.Here {
		if l := s.all()[id]; l != nil && !once(l.alive) {
			lie("that %s is here, which is dead", id)
		}
	}
	for _, r := range c.Rows {
		s.certain++
		if held := s.workers[r.Holder]; r.Holder != "" && (held == nil || !once([]span{held.deeds().held[r.Resource][r.Fence]}) || held.deeds().held[r.Resource][r.Fence].from == 0) {
			lie("that %s holds %s with fence %s, which it does not", r.Holder, r.Resource, r.Fence)
		}
		for id, w := range s.workers {
			d := w.deeds()
			if _, queue, _ := strings.Cut(r.Queue, ": "); strings.Contains(queue, id) && !strings.Contains(queue, id+" (") && !once(d.asked[r.Resource]) {
				lie("that %s waits for %s (%s), which it does not", id, r.Resource, r.Queue)
			}
			for _, h := range d.held[r.Resource] {
				if r.State == "free" && h.covers(from, to) {
					lie("that %s is free, and %s holds it", r.Resource, id)
				}
			}
		}
	}
}

func (s *scene) all() map[string]*life {
	all := map[string]*life{}
	for _, of := range []map[string]*life{s.roots, s.workers} {
		for id, l := range of {
			all[id] = l
		}
	}
	return all
}

func (s *scene) revive() {
	for _, l := range s.all() {
		if l.dead() {
			l.start()
		}
	}
}

// killOne kills a worker that does what is asked for, of those that live. It reports false
// if there is none.
func (s *scene) killOne(what string) bool {
	for _, w := range s.workers {
		if w.dead() {
			continue
		}
		lines := strings.Split(strings.TrimSpace(w.Printed()), "\n")
		if strings.HasPrefix(lines[len(lines)-1], what+" ") {
			w.end()
			return true
		}
	}
	return false
}

func (s *scene) killHolder() {
	s.Helper()
	poll.Within(s.T, patience, "somebody holds a lock", func() bool { return s.killOne("in") })
}

func (s *scene) killWaiter() {
	s.Helper()
	poll.Within(s.T, patience, "somebody waits", func() bool { return s.killOne("asks") })
}

// killAnyone kills a holder, or a waiter if nobody holds a lock any more: without a broker
// nobody gets one.
func (s *scene) killAnyone() {
	s.Helper()
	if !s.killOne("in") && !s.killOne("asks") {
		s.Error("nobody holds a lock or waits")
	}
}

// killRoot kills who says on the broker that it is the root.
func (s *scene) killRoot() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	c, err := pubsub.ConnectPlain(ctx, s.url, "watcher")
	if err != nil {
		s.Fatal(err)
	}
	defer stop(c.Close)
	var once sync.Once
	views := make(chan qosmutex.View, 1)
	_, err = c.Subscribe(ctx, "padme/v1/default/lock/crane/view", func(m pubsub.PlainMessage) {
		var v qosmutex.View
		if json.Unmarshal(m.Payload, &v) == nil {
			once.Do(func() { views <- v })
		}
	})
	if err != nil {
		s.Fatal(err)
	}
	select {
	case v := <-views:
		s.roots[v.Root].end()
	case <-ctx.Done():
		s.Fatal("nobody says who is the root")
	}
}
