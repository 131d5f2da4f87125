package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"padme/qosmutex/register/journal"
)

// Whatever is wrong with a file, the error says what to do, and nothing that would make it worse.
func TestRemediesOfFiles(t *testing.T) {
	open := func(make func(path string) error) error {
		path := filepath.Join(t.TempDir(), "file")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		_, err := journal.Open(path, "mine", func([]byte) error { return nil })
		if err == nil {
			t.Fatal("it is opened")
		}
		return err
	}
	empty := open(func(path string) error { return os.WriteFile(path, nil, 0o600) })
	full := &fs.PathError{Op: "write", Path: "/data/holds", Err: syscall.ENOSPC}
	directory := open(func(path string) error { return os.Mkdir(path, 0o700) })
	foreign := open(func(path string) error {
		j, err := journal.Open(path, "theirs", nil)
		if err != nil {
			return err
		}
		return j.Close()
	})
	for _, c := range []struct {
		got, says string
	}{
		{remedyOfVoter(empty, "v1"), "voters replace v1 v1"},
		{remedyOfVoter(directory, "v1"), "voters replace v1 v1"},
		{remedyOfVoter(foreign, "v1"), "the --data directory of this voter"},
		{remedyOfVoter(full, "v1"), "has room"},
		{remedyOfRegister(empty, "data"), "voters reset --data data"},
		{remedyOfRegister(directory, "data"), "voters reset --data data"},
		{remedyOfRegister(foreign, "data"), "another --data"},
		{remedyOfRegister(full, "data"), "has room"},
		{remedyOfHolds(empty), "move the file away"},
		{remedyOfHolds(full), "has room"},
	} {
		if !strings.Contains(c.got, c.says) || strings.Contains(c.says, "room") && strings.Contains(c.got, "away") {
			t.Errorf("%q does not say %q", c.got, c.says)
		}
	}
}

func TestSeveralErrorsAreToldApart(t *testing.T) {
	err := fmt.Errorf("the end: %w", errors.Join(errors.New("no space left"), errors.New("cannot be synced")))
	if got := message(err); got != "pubsub-node: the end: no space left; cannot be synced" {
		t.Error(got)
	}
	if got := message(errors.New("in the file:\n  line 3")); got != "pubsub-node: in the file: line 3" {
		t.Error(got)
	}
}
