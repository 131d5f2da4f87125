package local

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"padme/qosmutex/internal/pack"
	"padme/qosmutex/register"
	"padme/qosmutex/register/journal"
)

// Kind is the kind of the journal in which a register keeps its entries.
const Kind = "local register"

// Register is a register of one process.
type Register struct {
	journal *journal.Journal // nil: memory alone
	path    string           // of the journal
	place   string           // this run of the machine, and the file; empty: not known
	members members          // under mu
	domain  register.Domain
	opened  time.Time     // or longer ago, by what earlier processes noted; see Age
	writing chan struct{} // holds one token: whoever has it may write

	mu      sync.Mutex // never held while something is synced
	waiting []*call
	entries map[string]register.Entry
	closed  error // why nothing is answered any more
	done    chan struct{}

	compactAt int64 // size of the journal
}

var _ register.Register = (*Register)(nil)

// Memory returns an empty register that keeps nothing.
func Memory() *Register {
	r := &Register{domain: register.NewDomain(), opened: time.Now(), entries: map[string]register.Entry{}, writing: make(chan struct{}, 1), done: make(chan struct{})}
	r.writing <- struct{}{}
	return r
}

// Open returns the register that is kept in the file at path, or makes an empty one
// in a directory that exists. Only one process can have it open. Values are as they
// were written and synced last; each key has a new version.
func Open(path string) (*Register, error) {
	r := Memory()
	r.domain = register.Domain{}
	j, err := journal.Open(path, Kind, r.replay)
	if err != nil {
		return nil, fmt.Errorf("register: %w", err)
	}
	r.journal, r.path, r.compactAt, r.place = j, path, minCompact, journal.Place(path)
	if r.domain == (register.Domain{}) {
		r.domain = register.NewDomain()
		err = j.Append(r.domain[:])
	} else {
		err = r.renumber()
	}
	if err == nil && r.place != "" {
		if r.members, err = openMembers(path+".members", r.Place()); err == nil {
			r.opened = r.members.since
		}
	}
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("register: %w", err)
	}
	return r, nil
}

// renumber gives each key a version that it never had: renewals since the one in the
// file may have been forgotten, and a candidate that heard of them must not take what is
// left for the newest.
func (r *Register) renumber() error {
	for key, e := range r.entries {
		e.Version = e.Version.Next(r.domain, register.NewNonce())
		r.entries[key] = e
	}
	return r.compact()
}

// replay takes a record: first the domain, then entries.
func (r *Register) replay(record []byte) error {
	if r.domain == (register.Domain{}) {
		if len(record) != len(r.domain) {
			return fmt.Errorf("a domain has %d bytes, not %d", len(r.domain), len(record))
		}
		copy(r.domain[:], record)
		return nil
	}
	d := pack.NewReader(record)
	d.Tuple("entry", 4)
	key := d.String("key", register.MaxKey)
	e := register.Entry{Version: register.Version{
		Domain: r.domain, Counter: d.Uint("counter", math.MaxUint64), Nonce: d.Uint("nonce", math.MaxUint64),
	}, Value: d.Bytes("value", register.MaxValue)}
	if err := d.End("record"); err != nil {
		return err
	}
	r.entries[key] = e
	return nil
}

func appendEntry(dst []byte, key string, e register.Entry) []byte {
	dst = pack.AppendString(pack.AppendArray(dst, 4), key)
	dst = pack.AppendUint(pack.AppendUint(dst, e.Version.Counter), e.Version.Nonce)
	return pack.AppendBytes(dst, e.Value)
}

// Age returns for how long the register has been open, in this process and, as far as
// they noted it, in earlier ones on this run of the machine.
func (r *Register) Age() time.Duration { return time.Since(r.opened) }

// Place names this machine, since when it runs, the file, of which only one process at a time
// has the register open, and its domain, as containers on one machine may have the same path: an
// earlier process at the same place has ended. It is empty where that is not known.
func (r *Register) Place() string {
	if r.place == "" {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s:%x", r.place, r.domain)))
}

// Domain returns the domain of all versions.
func (r *Register) Domain() register.Domain { return r.domain }

// Get returns the current value and version of a key.
func (r *Register) Get(ctx context.Context, key string) (register.Entry, error) {
	if err := register.CheckKey(key); err != nil {
		return register.Entry{}, err
	}
	if err := ctx.Err(); err != nil {
		return register.Entry{}, &register.Unavailable{Cause: err}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != nil {
		return register.Entry{}, &register.Unavailable{Cause: r.closed}
	}
	e, ok := r.entries[key]
	if !ok {
		return register.Entry{Version: register.Version{Domain: r.domain}}, nil
	}
	return register.Entry{Value: slices.Clone(e.Value), Version: e.Version}, nil
}

// CompareAndSet makes writes. Those that are no renewals share one sync, also with those of
// others that wait meanwhile.
func (r *Register) CompareAndSet(ctx context.Context, writes ...register.Write) []register.Result {
	c := &call{writes: writes, results: make([]register.Result, len(writes)), done: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		c.fail(nil, &register.Unavailable{Cause: err})
		return c.results
	}
	r.mu.Lock()
	r.waiting = append(r.waiting, c)
	r.mu.Unlock()
	for {
		select {
		case <-c.done:
			return c.results
		case <-r.writing:
			r.commit()
			r.writing <- struct{}{}
			if c.isDone() { // whatever became of ctx
				return c.results
			}
		case <-ctx.Done():
			if c.isDone() {
				return c.results
			}
			late := &call{writes: writes, results: make([]register.Result, len(writes))}
			late.fail(nil, &register.Unavailable{Unknown: !r.withdraw(c), Cause: ctx.Err()})
			return late.results
		}
	}
}

// call is one of CompareAndSet that waits.
type call struct {
	writes  []register.Write
	results []register.Result
	done    chan struct{} // closed when it has results
}

func (c *call) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// withdraw reports whether nobody has begun with a call, and nobody will.
func (r *Register) withdraw(c *call) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.waiting)
	r.waiting = slices.DeleteFunc(r.waiting, func(w *call) bool { return w == c })
	return len(r.waiting) < n
}

// maxSync bounds the records that are synced at once, but for those of a single call.
const maxSync = 1 << 20

// sizeOf is about what the records of writes take.
func sizeOf(writes []register.Write) (n int) {
	for i := range writes {
		n += len(writes[i].Key) + len(writes[i].Value) + 32
	}
	return n
}

// commit does what is waiting, up to maxSync. The caller may write.
func (r *Register) commit() {
	b := &batch{r: r, changed: map[string]register.Entry{}}
	r.mu.Lock()
	closed, n := r.closed, 0
	for ; closed == nil && n < len(r.waiting) && (n == 0 || b.size+sizeOf(r.waiting[n].writes) <= maxSync); n++ {
		for i := range r.waiting[n].writes {
			r.waiting[n].results[i] = b.write(&r.waiting[n].writes[i])
		}
	}
	if closed != nil {
		n = len(r.waiting)
	}
	calls := slices.Clone(r.waiting[:n])
	r.waiting = slices.Delete(r.waiting, 0, n)
	r.mu.Unlock()
	if closed == nil {
		closed = b.commit()
	}
	for _, c := range calls {
		if closed != nil {
			c.fail(b.synced, &register.Unavailable{Unknown: b.synced != nil, Cause: closed})
		}
		close(c.done)
	}
}

// commit has the records on disk, and then lets everybody know what has changed.
func (b *batch) commit() error {
	r := b.r
	if len(b.records) > 0 && r.journal != nil {
		if err := r.journal.Append(b.records...); err != nil {
			r.end(err)
			return err
		}
	}
	r.mu.Lock()
	for key, e := range b.changed {
		r.entries[key] = e
	}
	r.mu.Unlock()
	if r.journal != nil && r.journal.Size() > r.compactAt {
		if err := r.compact(); err != nil {
			r.end(err) // later writes fail; these were made
		}
	}
	return nil
}

// TryRenew is CompareAndSet for one renewal that changes nothing else, if there is nothing to
// wait for. Else it does nothing and returns false: CompareAndSet says why, or waits.
func (r *Register) TryRenew(key string, old register.Version, nonce uint64) (register.Version, bool) {
	select {
	case <-r.writing:
		defer func() { r.writing <- struct{}{} }()
	default:
		return register.Version{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e, known := r.entries[key]
	if r.closed != nil || !known || old != e.Version || nonce == 0 {
		return register.Version{}, false
	}
	e.Version = e.Version.Next(r.domain, nonce)
	r.entries[key] = e
	return e.Version, true
}

// minCompact is the size below which no journal is compacted.
const minCompact = 1 << 20

// compact writes only what is current. The caller may write.
func (r *Register) compact() error {
	err := r.journal.Compact(r.records()...)
	if errors.Is(err, journal.ErrVanished) { // it has what counts, and Look tells
		r.compactAt = 2 * r.journal.Size()
		return nil
	}
	if err != nil {
		return err
	}
	r.compactAt = max(minCompact, 4*r.journal.Size())
	return nil
}

// records are all that count.
func (r *Register) records() [][]byte {
	records := [][]byte{r.domain[:]}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(r.entries)) {
		records = append(records, appendEntry(nil, key, r.entries[key]))
	}
	return records
}

// fail gives an error to the writes of the given keys, or to all that were valid.
func (c *call) fail(keys map[string]bool, err error) {
	for i := range c.results {
		if invalid := c.writes[i].Check(); keys == nil && invalid != nil {
			c.results[i] = register.Result{Err: invalid}
		} else if keys == nil || keys[c.writes[i].Key] {
			c.results[i] = register.Result{Err: err}
		}
	}
}

// batch is what some writes change. Nobody else writes meanwhile.
type batch struct {
	r       *Register
	changed map[string]register.Entry
	synced  map[string]bool
	records [][]byte
	size    int // of records
}

func (b *batch) write(w *register.Write) register.Result {
	if err := w.Check(); err != nil {
		return register.Result{Err: err}
	}
	from, known := b.changed[w.Key]
	if !known {
		if from, known = b.r.entries[w.Key]; !known {
			from.Version.Domain = b.r.domain
		}
	}
	if w.Made(from.Version) {
		return register.Result{Version: from.Version}
	}
	if !w.Replaces(from.Version) {
		current := register.Entry{Value: slices.Clone(from.Value), Version: from.Version}
		return register.Result{Err: &register.Conflict{Key: w.Key, Old: w.Old, Current: current}}
	}
	nonce := w.Nonce
	if nonce == 0 {
		nonce = register.NewNonce()
	}
	e := register.Entry{Value: slices.Clone(w.Value), Version: from.Version.Next(b.r.domain, nonce)}
	b.changed[w.Key] = e
	if w.Renewal > 0 && known {
		return register.Result{Version: e.Version}
	}
	if b.synced == nil {
		b.synced = map[string]bool{}
	}
	b.synced[w.Key] = true
	b.records = append(b.records, appendEntry(nil, w.Key, e))
	b.size += len(b.records[len(b.records)-1])
	return register.Result{Version: e.Version}
}

// end has nothing answered any more.
func (r *Register) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = err
		close(r.done)
	}
}

// Done is closed when the register answers nothing any more: it was closed, or its file cannot
// be written, as Err tells. Another start may heal that.
func (r *Register) Done() <-chan struct{} { return r.done }

// Err returns why the register answers nothing any more, or nil if it does.
func (r *Register) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// Close waits for writes in progress and frees the file.
func (r *Register) Close() error {
	<-r.writing
	defer func() { r.writing <- struct{}{} }()
	r.end(register.ErrClosed)
	if r.journal == nil {
		return nil
	}
	err := r.journal.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	err = errors.Join(err, r.members.close())
	r.members = members{}
	return err
}
