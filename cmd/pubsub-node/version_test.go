package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionNamesTheCommit(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "5d4b60f"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "2026-11-22T18:38:00Z"},
	}}
	var text strings.Builder
	if err := writeVersion(&text, versionOf(info)); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), "pubsub-node v1.2.3, commit 5d4b60f (modified), go1.") {
		t.Error(text.String())
	}
	if v := versionOf(&debug.BuildInfo{}); v.Version != "(devel)" || v.Commit != "" {
		t.Errorf("without any: %+v", v)
	}
}
