package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

const unwrittenInTests = 64 << 20

func openLog(dir string, log *slog.Logger) (*store, error) {
	return openStore(dir, unwrittenInTests, func(string, string, string) {}, log)
}

func openTestStore(t testing.TB, dir string) *store {
	t.Helper()
	s, err := openLog(dir, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !s.closed {
			_ = s.close()
		}
	})
	return s
}

func content(t testing.TB, s *store) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := s.each(func(string) bool { return true }, func(bucket, key string, value []byte) error {
		all[bucket+"|"+key] = string(value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The store behaves as a map does, through reopening and compaction.
func TestStoreIsAMap(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	want := map[string]string{}
	written := int64(0)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 30_000 {
		bucket, key := fmt.Sprint("b", rnd.IntN(5)), fmt.Sprint("k", rnd.IntN(50))
		switch n := rnd.IntN(100); {
		case n < 70:
			value := strings.Repeat(fmt.Sprint(i, ";"), rnd.IntN(800))
			s.put(bucket, key, []byte(value))
			written += int64(len(value))
			want[bucket+"|"+key] = value
		case n < 98:
			s.remove(bucket, key)
			delete(want, bucket+"|"+key)
		default:
			s.drop(bucket)
			maps.DeleteFunc(want, func(k, _ string) bool { return strings.HasPrefix(k, bucket+"|") })
		}
		if i%5000 == 4999 {
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			s = openTestStore(t, dir)
			if got := content(t, s); !maps.Equal(got, want) {
				t.Fatalf("after %d operations: %d keys, want %d", i+1, len(got), len(want))
			}
		}
	}
	if info, err := os.Stat(s.path); err != nil || info.Size() >= written || written < 2*rubbish {
		t.Errorf("%d bytes were written, the file has %d: %v", written, s.end, err)
	}
	if err := s.compact(); err != nil {
		t.Fatal(err)
	}
	s.put("b", "after", []byte("compaction"))
	want["b|after"] = "compaction"
	if got := content(t, s); !maps.Equal(got, want) {
		t.Error("compaction has changed something")
	}
}

// What is written while the file is rewritten is in the new one.
func TestNothingIsLostInACompaction(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	want := map[string]string{}
	for i := range 200 {
		key := fmt.Sprint("k", i)
		s.put("old", key, []byte(strings.Repeat(key, 1000)))
		want["old|"+key] = strings.Repeat(key, 1000)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		compacted := make(chan error)
		go func() { compacted <- s.compact() }()
		for i, going := 0, true; going; i++ {
			bucket, key := []string{"old", "new"}[rnd.IntN(2)], fmt.Sprint("k", rnd.IntN(200))
			switch n := rnd.IntN(100); {
			case n < 70:
				value := strings.Repeat(fmt.Sprint(i), rnd.IntN(100))
				s.put(bucket, key, []byte(value))
				want[bucket+"|"+key] = value
			case n < 99:
				s.remove(bucket, key)
				delete(want, bucket+"|"+key)
			default:
				s.drop("new")
				maps.DeleteFunc(want, func(k, _ string) bool { return strings.HasPrefix(k, "new|") })
			}
			select {
			case err := <-compacted:
				if going = false; err != nil {
					t.Fatal(err)
				}
			default:
			}
		}
		if got := content(t, s); !maps.Equal(got, want) {
			t.Fatalf("%d keys after a compaction, want %d", len(got), len(want))
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, openTestStore(t, dir)); !maps.Equal(got, want) {
		t.Errorf("%d keys when it is opened again, want %d", len(got), len(want))
	}
}

// Whatever the end of the file looks like, the records before it are read and
// new ones can be written.
func TestStoreSurvivesATornEnd(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	s.put("b", "one", []byte("1"))
	whole := s.end
	s.put("b", "two", []byte("2222222222"))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	intact, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), intact...)
	flipped[len(flipped)-1] ^= 1
	long := append([]byte(nil), intact...)
	copy(long[whole:], "\xff\xff\xff\xff")
	variants := [][]byte{flipped, long, append(intact[:whole:whole], make([]byte, 4096)...)}
	for n := int(whole); n < len(intact); n++ {
		variants = append(variants, intact[:n])
	}
	for i, v := range variants {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "broker.log"), v, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openTestStore(t, dir)
		s.put("b", "three", []byte("3"))
		_ = s.close()
		s = openTestStore(t, dir)
		if got := content(t, s); !maps.Equal(got, map[string]string{"b|one": "1", "b|three": "3"}) {
			t.Errorf("variant %d: %v", i, got)
		}
		_ = s.close()
	}
}

// What stood after a damaged record must not come back when a new record of the
// same size has taken its place.
func TestStoreForgetsWhatItCutsOff(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	s.put("b", "1", []byte("x"))
	second := s.end
	s.put("b", "2", []byte("x"))
	s.put("b", "3", []byte("x"))
	if _, err := s.file.WriteAt([]byte{0xff}, second+frame); err != nil {
		t.Fatal(err)
	}
	_ = s.close()
	s = openTestStore(t, dir)
	s.put("b", "4", []byte("x"))
	_ = s.close()
	if got := content(t, openTestStore(t, dir)); !maps.Equal(got, map[string]string{"b|1": "x", "b|4": "x"}) {
		t.Errorf("content %v", got)
	}
}

func TestStoreRefusesAnotherFile(t *testing.T) {
	for text, says := range map[string]string{
		"something else entirely":                "move it away",
		strings.Repeat("\x00", 100):              "move it away",
		"padme broker log 9\nwhatever it may be": "of a later version",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "broker.log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openLog(dir, testLog(t)); !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// fill has nothing be written any more until the returned function is called.
func (s *store) fill(t *testing.T) (empty func()) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	good := s.file
	full, err := os.Open(s.path) // for reading only
	if err != nil {
		t.Fatal(err)
	}
	s.file = full
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.file = good
		_ = full.Close()
	}
}

// A full disk must not be answered with an acknowledgement, see flow.OnPublish.
func TestStoreCountsFailures(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	s.put("b", "kept", []byte("1"))
	empty := s.fill(t)
	s.put("b", "late", []byte("2"))
	if s.failures() != 1 {
		t.Errorf("%d failures", s.failures())
	}
	empty()
	s.put("b", "next", []byte("3"))
	if s.failures() != 1 {
		t.Errorf("%d failures, none of them new", s.failures())
	}
	if got := content(t, s); !maps.Equal(got, map[string]string{"b|kept": "1", "b|late": "2", "b|next": "3"}) {
		t.Errorf("content %v", got)
	}
}

// Once there is room again, the file has what was changed while there was none, whatever is
// written next, and after a restart no older value comes back.
func TestAFullDiskLosesNoChange(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		dir := t.TempDir()
		s, err := openLog(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{}
		change := func() {
			bucket, key := fmt.Sprint("b", rnd.IntN(2)), fmt.Sprint("k", rnd.IntN(3))
			value := fmt.Sprint(rnd.Uint32())
			switch rnd.IntN(9) {
			case 0:
				s.drop(bucket)
				maps.DeleteFunc(want, func(k, _ string) bool { return strings.HasPrefix(k, bucket+"|") })
			case 1, 2:
				s.remove(bucket, key)
				delete(want, bucket+"|"+key)
			case 3:
				s.update(bucket, key, func() []byte { return nil })
				delete(want, bucket+"|"+key)
			case 4:
				s.update(bucket, key, func() []byte { return []byte(value) })
				want[bucket+"|"+key] = value
			default:
				s.put(bucket, key, []byte(value))
				want[bucket+"|"+key] = value
			}
		}
		for range 3 {
			for range rnd.IntN(6) {
				change()
			}
			empty := s.fill(t)
			for range rnd.IntN(20) {
				change()
			}
			empty()
		}
		for range rnd.IntN(3) {
			change()
		}
		if rnd.IntN(2) == 0 {
			s.retry() // as once a second
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if s, err = openLog(dir, testLog(t)); err != nil {
			t.Fatal(err)
		}
		if got := content(t, s); !maps.Equal(got, want) {
			t.Fatalf("after a restart %v, want %v", got, want)
		}
		_ = s.close()
	}
}

// What is kept for a disk that has no room is bounded, whatever is changed.
func TestWhatIsOwedIsBounded(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	empty := s.fill(t)
	defer empty()
	for i := range 20_000 {
		key := fmt.Sprint(i)
		s.put("short-lived", key, []byte("x"))
		s.remove("short-lived", key)
	}
	if o := &s.owed; len(o.records) > 1024 || o.bytes != 0 {
		t.Errorf("%d records, %d bytes for nothing", len(o.records), o.bytes)
	}
	beyond := map[string]int{}
	s.limited = func(limit, _, _ string) { beyond[limit]++ }
	for i := range 100 {
		s.put("large", fmt.Sprint(i), make([]byte, 1<<20))
	}
	if o := &s.owed; o.bytes > unwrittenInTests || o.bytes < unwrittenInTests-2<<20 {
		t.Errorf("%d bytes", o.bytes)
	}
	if len(beyond) != 1 || beyond["max-unwritten"] < 36 {
		t.Errorf("beyond limits: %v", beyond)
	}
	if got := s.failures(); got != 20_100 {
		t.Errorf("%d failures", got)
	}
}

// What a former version has stored with a message is understood, whom it is for among it.
func TestMessagesOfAFormerVersion(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	s.put("client/s", "session", []byte(`{"will":{},"properties":{},"username":null,"id":"s","t":"","remote":"","listener":"","protocolVersion":4,"clean":false}`))
	long := strings.Repeat("s", 600) // which is refused now
	s.put("client/"+long, "session", []byte(`{"will":{},"properties":{},"username":null,"id":"`+long+`","t":"","remote":"","listener":"","protocolVersion":4,"clean":false}`))
	s.put("client/s", "message/1", []byte(`{"properties":{"subscriptionIdentifier":[0]},"payload":"eA==","client":"s","origin":"c2","topic_name":"a","fixedheader":{"remaining":6,"type":3,"qos":1,"dup":false,"retain":false},"created":1795861606252895194,"packet_id":1}`))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "broker.log")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, append([]byte(magicOne), text[len(magicOne):]...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := started(t, Config{DataDir: dir})
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), magic) {
		t.Errorf("a former version would read what it misunderstands: %q, %v", text[:len(magic)], err)
	}
	if _, there := b.server.Clients.Get(long); there {
		t.Error("a session stays whose client id is refused")
	}
	cl, there := b.server.Clients.Get("s")
	if !there {
		t.Fatal("the session is not there")
	}
	if pk, there := cl.State.Inflight.Get(1); !there || pk.TopicName != "a" || string(pk.Payload) != "x" {
		t.Errorf("its message is %v, %v", pk, there)
	}
}
