package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"padme/qosmutex"
)

// topWidth is that of a terminal of which nothing is known.
const topWidth = 80

// topLeast is as narrow as the table can be; of narrower terminals its lines go beyond
// the edge.
const topLeast = 40

// writeTop writes a table that is at most so wide, and so high if height is not 0.
func writeTop(w io.Writer, snap topSnapshot, where string, width, height int) {
	at := snap.At.Local().Format(time.TimeOnly)
	where = printable(where)
	if !snap.Connected {
		where = "NO CONNECTION  " + where // not behind what may be cut off
	}
	terminal := width
	width = max(width, topLeast)
	say := func(text string) { fmt.Fprintln(w, strings.TrimRight(clip(text, terminal), " ")) }
	say(fit(where, width-len(at)-1) + " " + at)
	say(fmt.Sprintf("%s, %d held  %d waiting  %s/s  %s", many(len(snap.Locks), "lock"), snap.Held, snap.Waiting,
		perSecond(snap.Rate), many(snap.Participants, "participant")))
	others := 4 // lines: two above, the heads, and that of the cursor
	if len(snap.Missing) > 0 {
		others++
		say("VOTERS MISSING: " + printable(strings.Join(snap.Missing, ",")))
	}
	// LOCK, HOLDER and NEXT share what the numbers leave.
	const numbers = 2 + 1 + 8 + 1 + 6 + 1 + 5 + 1 + 6 + 2
	free := width - numbers
	name, holder := free*2/5, free*3/10
	next := free - name - holder
	line := func(a, b, priority, held, wait, rate, c string) {
		say(fmt.Sprintf("%s  %s %8s %6s %5s %6s  %s", fit(a, name), fit(b, holder),
			clip(priority, 8), clip(held, 6), clip(wait, 5), clip(rate, 6), fit(c, next)))
	}
	line("LOCK", "HOLDER", "PRIORITY", "FOR", "WAIT", "/s", "NEXT")
	rows := snap.Locks
	if height > 0 && len(rows) > height-others {
		rows = rows[:max(0, height-others-1)]
	}
	for _, l := range rows {
		holding, priority, held, wait, next := "-", "-", "-", "-", ""
		switch {
		case l.Holder != "":
			holding, priority, held = who(l.Holder, l.Via), fmt.Sprint(l.Priority), elapsed(snap.At.Sub(l.Since))
		case l.Status == qosmutex.StatusUnknown:
			holding, held = "?", elapsed(snap.At.Sub(l.Since))
		}
		if l.Waiting > 0 {
			wait = fmt.Sprint(l.Waiting)
		}
		if len(l.Queue) > 0 {
			next = printable(l.Queue[0].Participant)
		}
		line(printable(lockName(l.Topic, l.Resource)), holding, priority, held, wait, perSecond(l.Rate), next)
	}
	if more := len(snap.Locks) - len(rows); more > 0 {
		say("and " + many(more, "more lock"))
	}
}

// lockName is how people write a lock: without the resource that a topic has anyway.
func lockName(topic, resource string) string {
	if resource == qosmutex.DefaultResource {
		return topic
	}
	return topic + "/" + resource
}

func many(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// fit makes a text exactly so many characters long.
func fit(s string, width int) string {
	s = clip(s, width)
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// clip cuts off what is beyond so many characters, and shows that it did.
func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(0, width-1)]) + "~"
}

// elapsed writes a duration in at most six characters.
func elapsed(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// perSecond writes a rate in at most six characters, if it is below a million.
func perSecond(rate float64) string {
	switch {
	case rate == 0:
		return "0"
	case rate < 10:
		return fmt.Sprintf("%.1f", rate)
	}
	return fmt.Sprintf("%.0f", rate)
}
