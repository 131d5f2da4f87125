package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"padme/cmd/rescue-demo/internal/scenario"
	"padme/qosmutex"
)

var now = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func newJudge(t *testing.T) *judge {
	t.Helper()
	cfg := scenario.Default()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return &judge{key: NewKey(), cfg: &cfg, seen: map[string]time.Time{}}
}

func good() Command {
	return Command{ID: "0123456789", At: now.UnixMilli(), Do: Pause, Robot: "robot-3"}
}

func TestSealedCommandIsAdmittedOnce(t *testing.T) {
	j := newJudge(t)
	message := j.key.Seal(good())
	c, err := j.admit(message, now)
	if err != nil || c.Do != Pause || c.Number() != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, later := range []time.Duration{0, fresh, 2*fresh + 1} {
		if _, err := j.admit(message, now.Add(later)); err == nil {
			t.Errorf("it was admitted again after %v", later)
		}
	}
	next := good()
	next.ID = "abcdefgh"
	if _, err := j.admit(j.key.Seal(next), now); err != nil {
		t.Error(err)
	}
}

func TestForgedMessagesAreRefused(t *testing.T) {
	j := newJudge(t)
	sealed := string(j.key.Seal(good()))
	body, _ := json.Marshal(good())
	for name, message := range map[string]string{
		"another key":     string(NewKey().Seal(good())),
		"no seal":         string(body),
		"an empty seal":   fmt.Sprintf(`{"body":%q,"mac":""}`, body),
		"no hexadecimal":  fmt.Sprintf(`{"body":%q,"mac":"zz"}`, body),
		"another robot":   strings.Replace(sealed, "robot-3", "robot-4", 1),
		"no JSON":         "kill them all",
		"nothing":         "",
		"an array":        "[]",
		"a deep nest":     strings.Repeat("[", 4000),
		"a huge message":  `{"body":"` + strings.Repeat("x", 1<<20) + `"}`,
		"something after": sealed + "{}",
	} {
		if c, err := j.admit([]byte(message), now); err == nil {
			t.Errorf("%s: admitted %+v", name, c)
		}
	}
	if _, err := j.admit([]byte(sealed), now); err != nil {
		t.Errorf("the true one after them: %v", err)
	}
}

// What the page itself may send by mistake, or in the name of a program that has the
// key.
func TestSealedNonsenseIsRefusedWithTheReason(t *testing.T) {
	j := newJudge(t)
	seal := func(body string) []byte {
		text, _ := json.Marshal(Sealed{body, fmt.Sprintf("%x", j.key.mac(body))})
		return text
	}
	rest := fmt.Sprintf(`"id":"12345678","at":%d`, now.UnixMilli())
	for body, want := range map[string]string{
		`{` + rest + `,"do":"dance"}`:                                                              `"dance" is nothing`,
		`{` + rest + `}`:                                                                           `"" is nothing`,
		`{` + rest + `,"do":"kill"}`:                                                               `no robot ""`,
		`{` + rest + `,"do":"kill","robot":"robot-9"}`:                                             `no robot "robot-9"`,
		`{` + rest + `,"do":"kill","robot":"robot-0"}`:                                             `no robot`,
		`{` + rest + `,"do":"kill","robot":"robot-+1"}`:                                            `no robot`,
		`{` + rest + `,"do":"kill","robot":"center"}`:                                              `no robot`,
		`{` + rest + `,"do":"drop","x":NaN,"y":1}`:                                                 `no command`,
		`{` + rest + `,"do":"drop","x":1e999,"y":1}`:                                               `no command`,
		`{` + rest + `,"do":"drop","x":-1,"y":1}`:                                                  `outside of the area`,
		`{` + rest + `,"do":"drop","x":1,"y":100000}`:                                              `outside of the area`,
		`{` + rest + `,"do":"models","models":"level-replace-use-use"}`:                            `unknown field "models"`,
		`{` + rest + `,"do":"models","model":"politeness","from":"level","to":"fair"}`:             `there is no model "politeness"`,
		`{` + rest + `,"do":"models","model":"priority","from":"level","to":"aging"}`:              `level or fair here, not "aging"`,
		`{` + rest + `,"do":"models","model":"reply","from":"","to":"use"}`:                        `forward or use here, not ""`,
		`{` + rest + `,"do":"models","model":"reply","from":"forward","to":"retain"}`:              `forward or use here, not "retain"`,
		`{` + rest + `,"do":"models","model":"release","from":"forward","to":"keep"}`:              `forward or use or retain or direct here`,
		`{` + rest + `,"do":"killRoot","force":true}`:                                              `unknown field`,
		`{` + rest + `,"do":"killRoot"} {}`:                                                        `something follows`,
		`{"id":"1","at":0,"do":"killRoot"}`:                                                        `8 to 64 bytes`,
		`{"id":"12345678","at":0,"do":"killRoot"}`:                                                 `compare the clocks`,
		fmt.Sprintf(`{"id":"12345678","at":%d,"do":"killRoot"}`, now.Add(time.Minute).UnixMilli()): `compare the clocks`,
		`{"id":"12345678","at":9223372036854775807,"do":"killRoot"}`:                               `compare the clocks`,
	} {
		if _, err := j.admit(seal(body), now); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	if len(j.seen) != 0 {
		t.Errorf("%d refused commands are remembered", len(j.seen))
	}
}

func TestWhatIsRememberedIsForgotten(t *testing.T) {
	j := newJudge(t)
	for i := range 100 {
		at := now.Add(time.Duration(i) * fresh)
		c := Command{ID: fmt.Sprintf("command-%d", i), At: at.UnixMilli(), Do: KillRoot}
		if _, err := j.admit(j.key.Seal(c), at); err != nil {
			t.Fatal(err)
		}
	}
	if len(j.seen) > 5 {
		t.Errorf("%d commands are remembered", len(j.seen))
	}
}

// The page's own test has the same: page/test/draw.test.js.
func TestSealOfThePage(t *testing.T) {
	body := `{"id":"0123456789","at":1700000000000,"do":"pause","robot":"robot-3"}`
	if got := fmt.Sprintf("%x", Key{0, 1, 2, 3}.mac(body)); got != "9af33dfa9b5e51c25f1c5618521f51c06c7a0048d4d910bcdab0d2019216b77d" {
		t.Errorf("%s", got)
	}
	at := time.UnixMilli(1700000000000)
	j := newJudge(t)
	j.key = Key{0, 1, 2, 3}
	message, _ := json.Marshal(Sealed{body, "9af33dfa9b5e51c25f1c5618521f51c06c7a0048d4d910bcdab0d2019216b77d"})
	if c, err := j.admit(message, at); err != nil || c.Number() != 3 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestOneModelIsChanged(t *testing.T) {
	c := Command{Do: Models, Model: "reply", From: "forward", To: "use"}
	for before, want := range map[string]string{"level-forward-forward-forward": "level-forward-use-forward", "fair-replace-forward-use": "fair-replace-use-use"} {
		m, err := qosmutex.ParseModels(before)
		if err != nil {
			t.Fatal(err)
		}
		if m, err = c.Changed(m); err != nil || m.String() != want {
			t.Errorf("%s became %v, %v, want %s", before, m, err, want)
		}
		if again, err := c.Changed(m); err == nil || again != m {
			t.Errorf("%v was changed to %v by a command for other models", m, again)
		}
	}
}
