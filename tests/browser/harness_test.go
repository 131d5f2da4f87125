//go:build linux

package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"padme/tests/extent"
	"padme/tests/poll"
	"padme/tests/process"
	"padme/tests/state"
)

// patience bounds every waiting, on a machine that is busy.
const patience = 60 * time.Second

// shots is where screenshots for the documents go.
var shots = flag.String("shots", "", "`folder` for the screenshots of the documents (default: none are made)")

// maxShot bounds a screenshot, in bytes: they are kept in the repository.
const maxShot = 200 << 10

// bin are the commands.
var bin string

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		fmt.Fprintln(os.Stderr, workUntilKilled())
		os.Exit(1)
	}
	flag.Parse()
	if testing.Short() { // every test that needs the programs is skipped
		goleak.VerifyTestMain(m)
	}
	dir, remove := process.Build("padme/cmd/...")
	bin = dir
	state.In(dir)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		remove()
		os.Exit(code)
	}))
}

// start runs one of our commands, or the program of an absolute path, until the end of
// the test, at the latest.
func start(t *testing.T, command string, args ...string) *process.Process {
	t.Helper()
	extent.NotShort(t, "real processes")
	if !filepath.IsAbs(command) {
		command = filepath.Join(bin, command)
	}
	return process.Start(t, process.Options{Dir: t.TempDir(), Group: true}, append([]string{command}, args...)...)
}

// startReady runs a command that has --ready-file and returns what it wrote there.
func startReady(t *testing.T, command string, args ...string) (p *process.Process, where string) {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready")
	p = start(t, command, append(args, "--ready-file", ready)...)
	poll.Within(t, patience, command+" is ready", func() bool {
		select {
		case <-p.Done:
			t.Fatalf("%s %v has ended: %s", command, args, p.Printed())
		default:
		}
		text, err := os.ReadFile(ready)
		where = strings.TrimSpace(string(text))
		return err == nil
	})
	return p, where
}

// browser is chromium, with the driver in front of it.
type browser struct {
	*testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	kill func()
	id   int
}

// longest is what no command takes, also on a busy machine: the browser hangs.
const longest = 3 * time.Minute

// startBrowser runs a browser until the end of the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	extent.NotShort(t, "real processes")
	node := process.Need(t, "apt-get install nodejs", "node")
	chromium := process.Need(t, "apt-get install chromium", "chromium")
	for _, module := range []string{"playwright-core", "axe-core"} {
		if _, err := os.Stat(filepath.Join("js/node_modules", module)); err != nil {
			process.Missing(t, module, "npm ci --prefix tests/browser/js")
		}
	}
	cmd := exec.Command(node, "driver.js", chromium)
	cmd.Dir = "js"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	t.Cleanup(func() {
		_ = in.Close() // it closes the browser then
		late := time.AfterFunc(10*time.Second, kill)
		defer late.Stop()
		if _ = cmd.Wait(); t.Failed() && said.Len() > 0 {
			t.Logf("the driver printed:\n%s", said.String())
		}
	})
	b := &browser{T: t, in: in, out: bufio.NewReader(out), kill: kill}
	b.answer(0, nil)
	return b
}

type arguments map[string]any

// do sends a command and decodes the answer into value, if that is not nil.
func (b *browser) do(command string, args arguments, value any) error {
	b.id++
	args["id"], args["do"] = b.id, command
	line, err := json.Marshal(args)
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		return err
	}
	return b.answer(b.id, value)
}

func (b *browser) answer(id int, value any) error {
	hangs := time.AfterFunc(longest, b.kill)
	defer hangs.Stop()
	line, err := b.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the driver has ended, or hung for %v: %w", longest, err)
	}
	var a struct {
		ID    int
		Value json.RawMessage
		Error string
	}
	switch err := json.Unmarshal(line, &a); {
	case err != nil:
		return fmt.Errorf("the driver says %s: %w", line, err)
	case a.ID != id:
		return fmt.Errorf("an answer to command %d, want %d", a.ID, id)
	case a.Error != "":
		return fmt.Errorf("%s", a.Error)
	case value == nil:
		return nil
	}
	return json.Unmarshal(a.Value, value)
}

// window is how a page is shown.
type window struct {
	width, height int
	scheme        string // light or dark
	scale         int    // pixels of the screen for one of the page; 0: 1
	motion        string // reduce, or as the browser has it
	init          string // a script that runs before those of the page
}

// desktop is a window like that of most.
var desktop = window{width: 1280, height: 800, scheme: "light"}

// page is one that is open in the browser.
type page struct {
	*browser
	n int
}

func (b *browser) open(url string, w window) *page {
	b.Helper()
	p := &page{browser: b}
	err := b.do("open", arguments{"url": url, "width": w.width, "height": w.height, "scheme": w.scheme, "scale": w.scale, "motion": w.motion, "init": w.init}, &p.n)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// must sends a command that names the page.
func (p *page) must(command string, args arguments, value any) {
	p.Helper()
	args["page"] = p.n
	if err := p.do(command, args, value); err != nil {
		p.Fatalf("%s %v: %v", command, args, err)
	}
}

// eval evaluates JavaScript in the page.
func (p *page) eval(code string, value any) {
	p.Helper()
	p.must("eval", arguments{"code": code}, value)
}

// text is a JavaScript expression's value.
func (p *page) text(code string) (s string) {
	p.Helper()
	p.eval("String("+code+")", &s)
	return s
}

// await waits until JavaScript is true in the page.
func (p *page) await(format string, args ...any) {
	p.Helper()
	if err := p.reaches(patience, fmt.Sprintf(format, args...)); err != nil {
		p.Fatalf("%v\nthe page: %s", err, p.text("document.body.innerText"))
	}
}

// reaches is await with a bound and an error.
func (p *page) reaches(within time.Duration, code string) error {
	return p.do("await", arguments{"page": p.n, "code": code, "timeout": within.Milliseconds()}, nil)
}

func (p *page) press(key string)  { p.Helper(); p.must("press", arguments{"key": key}, nil) }
func (p *page) typed(text string) { p.Helper(); p.must("type", arguments{"text": text}, nil) }
func (p *page) click(selector string) {
	p.Helper()
	p.must("click", arguments{"selector": selector}, nil)
}

// shot writes a screenshot for the documents, if they are asked for.
func (p *page) shot(name string) {
	p.Helper()
	if *shots == "" {
		return
	}
	path := filepath.Join(*shots, name)
	p.must("shot", arguments{"path": path}, nil)
	if info, err := os.Stat(path); err != nil || info.Size() > maxShot {
		p.Errorf("%s: %v, or larger than %d kB", path, err, maxShot>>10)
	}
}

// quiet fails the test if the console has complained, or the page asked another host.
func (p *page) quiet() {
	p.Helper()
	if all := p.complaints(); len(all) > 0 {
		p.Errorf("the browser complains:\n%s", strings.Join(all, "\n"))
	}
}

// complaints are those since the last look.
func (p *page) complaints() (all []string) {
	p.Helper()
	p.must("complaints", arguments{}, &all)
	return all
}

// heap is what the page's JavaScript uses, in bytes.
func (p *page) heap() (bytes int64) {
	p.Helper()
	p.must("heap", arguments{}, &bytes)
	return bytes
}
