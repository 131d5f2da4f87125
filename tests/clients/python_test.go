//go:build linux

package clients

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"padme/tests/extent"
	"padme/tests/process"
)

const pythonPackage = "../../clients/python"

// interpreter is a Python that has paho.
func interpreter(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} { // the first may be one without Debian's packages
		if exec.Command(name, "-c", "import paho.mqtt.client").Run() == nil {
			return name
		}
	}
	process.Missing(t, "python3 with paho", "apt-get install python3-paho-mqtt")
	return ""
}

// python is how the example is run, with the package.
func python(t *testing.T) []string {
	t.Helper()
	dir, err := filepath.Abs(pythonPackage)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"env", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + dir, interpreter(t), "crane.py"}
}

// The tests of the Python package.
func TestPython(t *testing.T) {
	extent.Long(t, "all of the Python client")
	extent.NotShort(t, "real processes")
	t.Parallel()
	// The go command must know which files the result depends on, so that it does not take
	// a cached one after a change.
	err := filepath.WalkDir(pythonPackage, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".py" {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	test := exec.CommandContext(t.Context(), interpreter(t), "-m", "tests")
	test.Dir = pythonPackage
	test.Env = append(os.Environ(), "PADME_NODE="+bin, "PYTHONDONTWRITEBYTECODE=1")
	out, err := test.CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}
