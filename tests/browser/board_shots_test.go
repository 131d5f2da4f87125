//go:build linux

package browser

import (
	"fmt"
	"testing"

	"padme/qosmutex"
	"padme/tests/extent"
)

// TestScreenshots makes those of the documents: make screenshots. Without -shots it
// demands only that the pictures could be made.
func TestScreenshots(t *testing.T) {
	extent.Long(t, "pictures")
	t.Parallel()
	url := startEmbedded(t, "127.0.0.1:0", "").URL()
	members := yard(t, url)
	board := startUI(t, url)
	chromium := startBrowser(t)
	settled := func(p *page) {
		p.await("document.querySelectorAll('.row').length === 17 && document.querySelector('#n-all').textContent === '17'")
		p.await("board.tree.edges.size > 2 && board.locks.views.size === 4")
	}
	open := func(address, scheme string, width, height, scale int) *page {
		p := chromium.open(board+address, window{width: width, height: height, scheme: scheme, scale: scale})
		settled(p)
		return p
	}
	light := open("#/lock/crane/north", "light", 1440, 860, 1)
	dark := open("#/", "dark", 1440, 860, 1)
	phone := open("#/", "light", 390, 780, 1)
	work(members)
	defer keepBusy(t, members)()
	for _, p := range []*page{light, dark} {
		p.await("document.querySelectorAll('.row[data-state=held]').length === 5 && document.querySelectorAll('#history li').length > 4")
		p.await("board.history.newest().length > 100")
		p.await("['request', 'reply', 'release'].every(k => document.querySelector('.messages .' + k))")
	}
	light.shot("board-light.png")
	dark.shot("board-dark.png")
	phone.shot("board-phone.png")
	light.click("#detail tbody tr:nth-child(2) .why")
	light.await("%s", explanation)
	light.shot("board-why.png")
	for _, view := range []string{"#/tree/crane", "#/people", "#/history", "#/lock/crane/north"} { // each can be looked at on a phone
		phone.eval(fmt.Sprintf("location.hash = %q", view), nil)
		phone.await("document.documentElement.scrollWidth <= innerWidth")
	}
	for _, p := range []*page{light, dark, phone} {
		p.quiet()
	}
}

// yard is a port with cranes, gates, frequencies and a printer; it returns the members of
// the lock of the cranes.
func yard(t *testing.T, url string) []*member {
	t.Helper()
	var cranes []*member
	names := []string{"tower", "lift-1", "lift-2", "truck-14", "truck-15", "truck-16", "ship-3", "gantry"}
	for i, name := range names {
		opts := []qosmutex.Option{qosmutex.WithNodePriority(int64(i)), qosmutex.WithFanout(3)}
		if i == 0 {
			opts = append(opts, qosmutex.Create(), qosmutex.WithResources("north", "south", "east"))
		}
		cranes = append(cranes, join(t, url, name, "crane", opts...))
	}
	also := func(topic string, resources []string, members ...*member) {
		for i, m := range members {
			opts := []qosmutex.Option{qosmutex.WithNodePriority(int64(i))}
			if i == 0 {
				opts = append(opts, qosmutex.Create(), qosmutex.WithResources(resources...))
			}
			m.also(topic, opts...)
		}
	}
	var gates []string
	for i := range 9 {
		gates = append(gates, fmt.Sprintf("gate-%d", i+1))
	}
	also("yard", gates, cranes[0], cranes[3], cranes[4], cranes[5])
	also("frequency", []string{"146.520", "446.000", "121.500", "156.800"}, cranes[0], cranes[6], cranes[7])
	also("printer", []string{"default"}, cranes[0], cranes[7])
	return cranes
}

// work has them hold and wait.
func work(cranes []*member) {
	cranes[4].in("yard").lock("gate-2", 4)
	cranes[5].in("yard").lock("gate-7", 4)
	cranes[3].in("yard").waits("gate-7", 6)
	cranes[6].in("frequency").lock("156.800", 1)
	cranes[7].in("frequency").waits("156.800", 2)
	cranes[1].lock("north", 5)
	for i, m := range cranes[3:7] {
		m.waits("north", int64(10*(i+1)))
	}
}
