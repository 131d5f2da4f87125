package etcd

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"padme/internal/wait"
	"padme/qosmutex/register"
	"padme/qosmutex/register/internal/parts"
)

// Options say where the cluster is.
type Options struct {
	Endpoints []string // such as "http://10.1.2.3:2379": all members
	Prefix    string   // of all keys; "padme/register/" if empty
	Username  string
	Password  string
	TLS       *tls.Config

	// Patience is how long one member may take before another one is asked. It is a
	// second if 0.
	Patience time.Duration
}

// Register is a register in an etcd cluster.
type Register struct {
	client   *clientv3.Client
	opts     Options
	opened   time.Time
	instance []byte // random number of the prefix
	cancel   context.CancelFunc
	callers  parts.Callers

	mu        sync.Mutex
	revisions map[string]revision
}

// revision is where etcd has a version of a key.
type revision struct {
	version register.Version
	mod     int64
}

var _ register.Register = (*Register)(nil)

// maxRevisions bounds how many keys a register remembers. Others are read before they
// are written.
const maxRevisions = 1 << 16

// Open connects to a cluster. The context bounds that alone.
func Open(ctx context.Context, opts Options) (*Register, error) {
	if len(opts.Endpoints) == 0 {
		return nil, fmt.Errorf("%w: no endpoint of etcd is named", register.ErrInvalid)
	}
	if opts.Prefix == "" {
		opts.Prefix = "padme/register/"
	}
	if opts.Patience <= 0 {
		opts.Patience = time.Second
	}
	alive, cancel := context.WithCancel(context.Background())
	client, err := clientv3.New(clientv3.Config{
		Context: alive, Endpoints: opts.Endpoints, Username: opts.Username, Password: opts.Password, TLS: opts.TLS,
		DialTimeout: opts.Patience, Logger: zap.NewNop(),
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("register: etcd: %w", err)
	}
	r := &Register{opened: time.Now(), client: client, opts: opts, cancel: cancel, revisions: map[string]revision{}}
	if err := r.join(ctx); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// join reads the random number of the prefix, or writes one.
func (r *Register) join(ctx context.Context) error {
	key := r.opts.Prefix + "instance"
	mine := register.NewDomain()
	return r.retry(ctx, func(ctx context.Context) error {
		resp, err := r.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, string(mine[:]))).Else(clientv3.OpGet(key)).Commit()
		if err != nil {
			return err
		}
		r.instance = mine[:]
		if !resp.Succeeded {
			r.instance = resp.Responses[0].GetResponseRange().Kvs[0].Value
		}
		return nil
	})
}

// Close disconnects. Calls in progress fail.
func (r *Register) Close() error {
	r.cancel()
	if err := r.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("register: etcd: %w", err)
	}
	return nil
}

// Age returns for how long the register has been open.
func (r *Register) Age() time.Duration { return time.Since(r.opened) }

// retry tries until the context ends. Each try goes to another member, as the client
// takes them in turn.
func (r *Register) retry(ctx context.Context, try func(ctx context.Context) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return &register.Unavailable{Missing: r.missing(), Cause: err}
		}
		some, cancel := context.WithTimeout(ctx, r.opts.Patience)
		err := try(some)
		cancel()
		switch {
		case err == nil:
			return nil
		case r.client.Ctx().Err() != nil:
			return &register.Unavailable{Cause: register.ErrClosed}
		}
		if !wait.Sleep(ctx, r.opts.Patience/20) {
			return &register.Unavailable{Missing: r.missing(), Cause: errors.Join(ctx.Err(), err)}
		}
	}
}

// missing lists the endpoints that do not answer at once.
func (r *Register) missing() []string {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var mu sync.Mutex
	var list []string
	var all sync.WaitGroup
	for _, endpoint := range r.opts.Endpoints {
		all.Go(func() {
			resp, err := r.client.Status(ctx, endpoint)
			if err == nil && resp.Leader != 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			list = append(list, endpoint)
		})
	}
	all.Wait()
	slices.Sort(list)
	return list
}

// domain is that of an answer.
func (r *Register) domain(h *pb.ResponseHeader) register.Domain {
	b := binary.BigEndian.AppendUint64(nil, h.ClusterId)
	sum := sha256.Sum256(append(b, r.instance...))
	return register.Domain(sum[:16])
}

func (r *Register) path(key string) string { return r.opts.Prefix + "keys/" + key }

// nonceSize is how many bytes of a value in etcd are the nonce.
const nonceSize = 8

// entry reads what etcd has of a key, and remembers its revision.
func (r *Register) entry(key string, h *pb.ResponseHeader, kvs []*mvccpb.KeyValue) (register.Entry, error) {
	e := register.Entry{Version: register.Version{Domain: r.domain(h)}}
	if len(kvs) == 0 {
		return e, nil
	}
	kv := kvs[0]
	if len(kv.Value) < nonceSize {
		return e, fmt.Errorf("register: etcd: %q has %d bytes, which no register has written", r.path(key), len(kv.Value))
	}
	e.Version.Counter, e.Version.Nonce = uint64(kv.Version), binary.BigEndian.Uint64(kv.Value)
	e.Value = slices.Clone(kv.Value[nonceSize:])
	r.remember(key, revision{e.Version, kv.ModRevision})
	return e, nil
}

func (r *Register) remember(key string, at revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.revisions) >= maxRevisions {
		clear(r.revisions) // those in use are back after a read each
	}
	r.revisions[key] = at
}

// Get returns the current value and version of a key.
func (r *Register) Get(ctx context.Context, key string) (register.Entry, error) {
	if err := register.CheckKey(key); err != nil {
		return register.Entry{}, err
	}
	var e register.Entry
	err := r.retry(ctx, func(ctx context.Context) error {
		resp, err := r.client.Get(ctx, r.path(key))
		if err == nil {
			e, err = r.entry(key, resp.Header, resp.Kvs)
		}
		return err
	})
	return e, err
}

// limits are those of one transaction, with the defaults of a server: 128 operations at
// all levels together.
var limits = parts.Limits{Writes: 100, Bytes: 1 << 20}

// CompareAndSet makes writes. Those of different keys share a transaction, in which
// each is one of its own. Single renewals of calls that follow each other closely share one, too.
func (r *Register) CompareAndSet(ctx context.Context, writes ...register.Write) []register.Result {
	return r.callers.CompareAndSet(ctx, writes, limits, func(ctx context.Context, some []register.Write) ([]register.Result, error) {
		t := &transaction{r: r, writes: some, results: make([]register.Result, len(some))}
		err := r.retry(ctx, t.try)
		var u *register.Unavailable
		if errors.As(err, &u) {
			u.Unknown = t.tried
		}
		return t.results, err
	})
}

// transaction is some writes of different keys.
type transaction struct {
	r       *Register
	writes  []register.Write
	results []register.Result
	tried   bool // it may have been made by an earlier try
}

func (t *transaction) try(ctx context.Context) error {
	compares, err := t.compares(ctx)
	if err != nil {
		return err
	}
	var ops []clientv3.Op
	for i := range t.writes {
		w := &t.writes[i]
		value := append(binary.BigEndian.AppendUint64(nil, w.Nonce), w.Value...)
		get := []clientv3.Op{clientv3.OpGet(t.r.path(w.Key))}
		if compares[i] == nil {
			ops = append(ops, clientv3.OpTxn(nil, get, nil))
			continue
		}
		put := []clientv3.Op{clientv3.OpPut(t.r.path(w.Key), string(value))}
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{*compares[i]}, put, get))
	}
	resp, err := t.r.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		t.tried = true
		return err
	}
	for i := range t.writes {
		t.result(i, resp.Header, resp.Responses[i].GetResponseTxn())
	}
	return nil
}

// compares returns what has to be so for each write to be made. It is nil if the write
// replaces a version that the key does not have.
func (t *transaction) compares(ctx context.Context) ([]*clientv3.Cmp, error) {
	list := make([]*clientv3.Cmp, len(t.writes))
	mods := make([]int64, len(t.writes)) // of what each replaces; 0: the key does not have that
	var unknown []clientv3.Op
	var of []int
	for i := range t.writes {
		if w := &t.writes[i]; w.Old.Counter > 0 {
			if mods[i] = t.r.revision(w); mods[i] == 0 {
				unknown, of = append(unknown, clientv3.OpGet(t.r.path(w.Key))), append(of, i)
			}
		}
	}
	header := (*pb.ResponseHeader)(nil)
	if len(unknown) > 0 || t.namesDomain() {
		resp, err := t.r.client.Txn(ctx).Then(unknown...).Commit()
		if err != nil {
			return nil, err
		}
		header = resp.Header
		for n, i := range of {
			kvs := resp.Responses[n].GetResponseRange().Kvs
			// What cannot be read has no known revision, and is told of with the results.
			if e, err := t.r.entry(t.writes[i].Key, header, kvs); err == nil && e.Version == t.writes[i].Old {
				mods[i] = kvs[0].ModRevision // not what is remembered by now: an older answer may have come meanwhile
			}
		}
	}
	for i := range t.writes {
		w := &t.writes[i]
		if w.Old.Counter > 0 {
			if mods[i] > 0 {
				c := clientv3.Compare(clientv3.ModRevision(t.r.path(w.Key)), "=", mods[i])
				list[i] = &c
			}
		} else if w.Old.Domain == (register.Domain{}) || w.Old.Domain == t.r.domain(header) {
			c := clientv3.Compare(clientv3.CreateRevision(t.r.path(w.Key)), "=", 0)
			list[i] = &c
		}
	}
	return list, nil
}

// namesDomain reports whether a first write of a key says in which domain.
func (t *transaction) namesDomain() bool {
	return slices.ContainsFunc(t.writes, func(w register.Write) bool {
		return w.Old.Counter == 0 && w.Old.Domain != register.Domain{}
	})
}

// revision returns where etcd has what w replaces, or 0 if that is not known.
func (r *Register) revision(w *register.Write) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.revisions[w.Key]; at.version == w.Old {
		return at.mod
	}
	return 0
}

// result knows what has come of a write.
func (t *transaction) result(i int, h *pb.ResponseHeader, resp *pb.TxnResponse) {
	w := &t.writes[i]
	if put := resp.Responses[0].GetResponsePut(); put != nil {
		v := w.Old.Next(t.r.domain(h), w.Nonce)
		t.r.remember(w.Key, revision{v, h.Revision})
		t.results[i] = register.Result{Version: v}
		return
	}
	current, err := t.r.entry(w.Key, h, resp.Responses[0].GetResponseRange().Kvs)
	switch {
	case err != nil:
		t.results[i] = register.Result{Err: err}
	case w.Made(current.Version):
		t.results[i] = register.Result{Version: current.Version}
	default:
		unknown := t.tried && current.Version.Counter > w.Old.Counter+1
		t.results[i] = register.Result{Err: &register.Conflict{Key: w.Key, Old: w.Old, Current: current, Unknown: unknown}}
	}
}

// String names the endpoints.
func (r *Register) String() string { return "etcd at " + strings.Join(r.opts.Endpoints, ", ") }
