package web_test

import (
	"io/fs"
	"regexp"
	"testing"

	"padme/cmd/rescue-demo/internal/web"
	"padme/tests/modules"
)

func TestModules(t *testing.T) { modules.Test(t, "page/test/*.test.js") }

// The content security policy lets nothing through from elsewhere; nothing should
// ask for it.
func TestThePageAsksNobodyElse(t *testing.T) {
	foreign := regexp.MustCompile(`(?i)(src|href|import|from|url)\s*[=(]?\s*["'(]\s*(https?:)?//`)
	n := 0
	err := fs.WalkDir(web.Files(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		text, err := fs.ReadFile(web.Files(), path)
		if found := foreign.Find(text); found != nil {
			t.Errorf("%s: %s", path, found)
		}
		return err
	})
	if err != nil || n < 10 {
		t.Errorf("%d files, %v", n, err)
	}
}

func TestConfigHoldsTheKeyOrNone(t *testing.T) {
	if c := web.NewConfig("frequencies", []byte{0, 0xab}); c.Key != "00ab" || c.LockTopic != "frequencies" {
		t.Errorf("%+v", c)
	}
	if c := web.NewConfig("frequencies", nil); c.Key != "" {
		t.Errorf("%+v", c)
	}
}
