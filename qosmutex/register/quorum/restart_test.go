package quorum_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"padme/qosmutex/register"
	"padme/qosmutex/register/quorum"
)

// written starts all voters with a lease, and has a key that all of them have on disk.
func (f *fleet) written(lease time.Duration) register.Version {
	f.t.Helper()
	f.lease = lease
	f.startAll()
	v := put(f.t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
	settle() // else the renewal may be what brings it to a majority, and is synced
	return v
}

// renewed has all voters accept a renewal of that key.
func (f *fleet) renewed(old register.Version) register.Version {
	f.t.Helper()
	v := put(f.t, f.voters["a"], register.Write{Key: "crane", Old: old, Value: []byte("2"), Renewal: time.Minute})
	settle()
	return v
}

func TestVoterIsQuietAfterAPowerCut(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		v := f.written(time.Minute)
		renewed := f.renewed(v)
		f.cut("c")
		c := f.start("c", abc...)
		if e := get(t, c, "crane"); e.Version != renewed { // the two others cover it
			t.Errorf("%q at %v", e.Value, e.Version)
		}
		if q := time.Duration(c.Status().Quiet); q < 59*time.Second || q > time.Minute {
			t.Errorf("quiet for %v", q)
		}
		f.cut("a")
		f.cut("b")
		f.cut("c")
		f.startAll()
		unavailable(t, f.voters["a"], "a b c")
		time.Sleep(time.Minute)
		if e := get(t, f.voters["a"], "crane"); e.Version != v { // the renewal is forgotten
			t.Errorf("%q at %v", e.Value, e.Version)
		}
	})
}

// A process that ends has written what it did not sync: all voters may be started again in turn,
// however long their leases are.
func TestVoterThatIsKilledAnswersAtOnce(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		v := f.written(time.Minute)
		for range 3 {
			renewed := f.renewed(v)
			for _, id := range abc {
				f.kill(id)
			}
			f.start("b", abc...)
			c := f.start("c", abc...)
			if e := get(t, c, "crane"); e.Version != renewed {
				t.Errorf("%q at %v, not at %v", e.Value, e.Version, renewed)
			}
			f.start("a", abc...)
			v = renewed
		}
	})
}

// A voter that is killed while it is quiet has not kept anything meanwhile, but the silence is
// not over.
func TestVoterIsQuietAfterEachCrashUntilItHasBeen(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.written(time.Minute)
		f.cut("c")
		for range 3 {
			c := f.start("c", abc...)
			time.Sleep(20 * time.Second)
			if c.Status().Quiet == 0 {
				t.Error("it answers")
			}
			f.kill("c")
		}
		f.start("c", abc...)
		time.Sleep(time.Minute + time.Second)
		f.kill("c")
		if q := f.start("c", abc...).Status().Quiet; q != 0 {
			t.Errorf("quiet for %v", time.Duration(q))
		}
	})
}

// A voter that is killed, and started with a shorter lease, still has renewals of the longer one
// that are not synced.
func TestVoterOwesWhatAKilledOneHasLeftUnsynced(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		v := f.written(time.Minute)
		f.renewed(v)
		f.lease = time.Second
		f.kill("c")
		f.start("c", abc...)
		settle()
		f.cut("c")
		if q := time.Duration(f.start("c", abc...).Status().Quiet); q < 59*time.Second {
			t.Errorf("quiet for %v", q)
		}
	})
}

// A disk that takes nothing for a while, such as a full one, costs the silence only if the voter ends
// meanwhile.
func TestVoterKeepsRenewalsAgainAfterTrouble(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.lease = time.Minute
		trouble := f.file("c") + ".unsynced.new"
		if err := os.Mkdir(trouble, 0o700); err != nil {
			t.Fatal(err)
		}
		f.startAll()
		put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		settle()
		f.kill("c")
		if q := f.start("c", abc...).Status().Quiet; q == 0 {
			t.Error("nothing was kept, and it answers")
		}
		time.Sleep(2 * time.Minute)
		if err := os.Remove(trouble); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		f.kill("c")
		if q := f.start("c", abc...).Status().Quiet; q != 0 {
			t.Errorf("quiet for %v", time.Duration(q))
		}
	})
}

// What cannot be taken back ends the voter before it acknowledges anything else.
func TestVoterEndsWhenItsNotesWouldBeBelieved(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		disk := &quorum.MemoryDisk{Killed: true}
		v, err := quorum.StartOn(f.options("a", []string{"a"}), port{f.n, "a"}, disk, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = v.Close() }()
		is := put(t, v, register.Write{Key: "crane", Value: []byte("1")})
		disk.FailNote = errors.New("the file can be neither written nor taken back")
		for range 2 {
			res := v.CompareAndSet(soon(t), register.Write{Key: "crane", Old: is, Value: []byte("2"), Renewal: time.Millisecond})
			if !errors.Is(res[0].Err, register.ErrUnavailable) {
				t.Errorf("got %v", res[0].Err)
			}
		}
	})
}

// Two restarts with a shorter lease later, what was not synced is still there.
func TestVoterKeepsALongerLeaseOfTwoRunsBefore(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		v := f.written(time.Minute)
		v = f.renewed(v)
		f.lease = time.Second
		for range 2 {
			for _, id := range abc {
				f.kill(id)
			}
			f.startAll()
		}
		if e := get(t, f.voters["a"], "crane"); e.Version != v {
			t.Errorf("%q at %v, not at %v", e.Value, e.Version, v)
		}
	})
}

// A topic may have a longer lease than the voters spare the disk for: what it relies on
// is not forgotten when all voters restart.
func TestRenewalOfALongerLeaseIsNotForgotten(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.lease = time.Second
		f.startAll()
		v := put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		renewed := put(t, f.voters["a"], register.Write{Key: "crane", Old: v, Value: []byte("2"), Renewal: time.Minute})
		restart(f)
		if e := get(t, f.voters["a"], "crane"); e.Version != renewed {
			t.Errorf("%q at %v", e.Value, e.Version)
		}
	})
}

// A voter that is started with a shorter lease than before still owes what it left
// unsynced: it is quiet for the longer one, also when it crashes again meanwhile.
func TestVoterIsQuietForTheLeaseOfItsFile(t *testing.T) {
	virtual(t, 1, func(t *testing.T, f *fleet) {
		f.lease = time.Minute
		f.startAll()
		v := put(t, f.voters["a"], register.Write{Key: "crane", Value: []byte("1")})
		f.renewed(v)
		f.lease = time.Second
		for range 3 {
			restart(f)
			unavailable(t, f.voters["a"], "a b c")
		}
		time.Sleep(time.Minute)
		get(t, f.voters["a"], "crane")
		restart(f)
		time.Sleep(time.Second)
		get(t, f.voters["a"], "crane") // from now on the shorter one counts
		if q := f.voters["a"].Status().Quiet; q != 0 {
			t.Errorf("quiet for %v", time.Duration(q))
		}
	})
}

// restart cuts the power of all for a moment.
func restart(f *fleet) {
	for _, id := range abc {
		f.cut(id)
	}
	for _, id := range abc {
		f.start(id, abc...)
	}
}
