package main

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"padme/pubsub"
	"padme/qosmutex"
	"padme/qosmutex/jsonlock"
)

// A domain with many locks has a few lines that all is well, and each that something is not.
func TestDoctorSumsUpWhatIsWell(t *testing.T) {
	found := []finding{{"broker", resultOK, "answered"}, {"lease", resultOK, "a"}, {"lease", resultOK, "b"}}
	for i := range 120 {
		f := finding{"root", resultOK, "lock" + strconv.Itoa(i)}
		if i%50 == 0 {
			f.Result = resultBad
		}
		found = append(found, f)
	}
	var text strings.Builder
	if err := writeFindings(&text, found); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"broker ok answered", "lease ok a", "lease ok b",
		"root bad lock0", "root ok 117, the first is lock1", "root bad lock50", "root bad lock100",
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", text.String(), strings.Join(want, "\n"))
	}
}

// Where no voter answers, those that the roots lacked before show that there were some.
func TestDoctorNamesVotersOfWhichNoneAnswers(t *testing.T) {
	views := []qosmutex.View{{Topic: "crane", Missing: []string{"g2", "g3"}}, {Topic: "dock", Missing: []string{"g2"}}}
	found := examineVoters(&survey{}, views)
	if len(found) != 1 || found[0].Result != resultBad || !strings.Contains(found[0].Detail, "lacked g2,g3 before") {
		t.Errorf("%+v", found)
	}
	if found := examineVoters(&survey{}, []qosmutex.View{{Topic: "crane"}}); len(found) > 0 {
		t.Errorf("there were none: %+v", found)
	}
}

// Who serves locks is named; if nobody does, doctor says what to start.
func TestDoctorNamesWhoServes(t *testing.T) {
	serves := map[string]string{jsonlock.ServesKey: jsonlock.ServesLocks}
	known := map[string]pubsub.Presence{"sub": {Alive: true}, "dead": {UserData: serves}}
	nobody := errors.New("nobody serves locks")
	if f := examineServers(known, nobody); f.Result != resultNote || f.Detail != nobody.Error() {
		t.Errorf("%+v", f)
	}
	known["s2"], known["s1"] = pubsub.Presence{Alive: true, UserData: serves}, pubsub.Presence{Alive: true, UserData: serves}
	if f := examineServers(known, nobody); f.Result != resultOK || f.Detail != "s1, s2" {
		t.Errorf("%+v", f)
	}
}
