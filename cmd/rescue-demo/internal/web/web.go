// Package web holds the files of the page that shows a run. The page is an MQTT
// client like any other: it reads what package telemetry and the locks publish and
// decodes the pictures on the frequencies itself.
package web

import (
	"embed"
	"encoding/hex"
	"io/fs"
)

//go:embed page/*.html page/*.js page/*.css page/*.svg
var files embed.FS

// Files returns the page, with index.html at its root.
func Files() fs.FS {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	return page
}

// Comparison returns the page of two runs side by side, with index.html at its root.
func Comparison() fs.FS { return comparison{Files()} }

type comparison struct{ fs.FS }

// Open has compare.html be the page that is there first.
func (c comparison) Open(name string) (fs.File, error) {
	if name == "index.html" {
		name = "compare.html"
	}
	return c.FS.Open(name)
}

// ComparisonConfig is what the page of two runs wants to know.
type ComparisonConfig struct {
	LockTopic string   `json:"lockTopic"`
	Domains   []string `json:"domains"` // of the first and of the second run
}

// Config is what the page wants to know beside how to reach the broker.
type Config struct {
	LockTopic string `json:"lockTopic"`
	// Key seals commands, in hexadecimal; empty: the page only looks.
	Key string `json:"key,omitempty"`
}

// NewConfig returns the configuration of a page that may command if key is given.
func NewConfig(lockTopic string, key []byte) Config {
	return Config{LockTopic: lockTopic, Key: hex.EncodeToString(key)}
}
