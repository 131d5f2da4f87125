package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"padme/cmd/internal/recording"
	"padme/cmd/internal/web"
)

// maxReplayed bounds the lines of a recording that a page is given: it keeps all of them.
const maxReplayed = 256 << 20

// replayed is the page of a recording, which is read once to say now what is wrong with it.
func replayed(name string, files fs.FS) (site *web.Site, shows string, err error) {
	s, err := summarize(name)
	if err != nil {
		return nil, "", err
	}
	site = &web.Site{Files: files, Recording: name, Config: web.Config{Domain: s.Domain, Replay: true}}
	shows = fmt.Sprintf("replay   %s: %d messages in %v from %s", printable(name), s.Messages, s.Length.Round(time.Second), s.Started.Local().Format(time.DateTime))
	if s.Missed > 0 {
		shows += fmt.Sprintf(", %d missed", s.Missed)
	}
	if s.Cut {
		shows += ", up to where it breaks off"
	}
	return site, shows, nil
}

func summarize(name string) (s recording.Summary, err error) {
	f, err := os.Open(name)
	if err != nil {
		return s, usageError("--replay: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s, err = recording.Summarize(f, maxReplayed); err != nil {
		return s, usageError("--replay %s: %w: \"pubsub-node record\" makes one", name, err)
	}
	return s, nil
}
