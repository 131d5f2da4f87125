package broker

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
)

// Role says what a user may do beyond, or instead of, being a member.
type Role string

const (
	// Member is a participant under its own name; see [Config.Users] for the table.
	Member Role = ""
	// Observer reads every topic, including those outside the prefix and $SYS, except the
	// inboxes and answers of others, and writes nothing. Its sessions end with their
	// connections.
	Observer Role = "observer"
	// Gateway is a member that also reads the requests and writes the answers of clients
	// without our library: lock/{topic}/client/{any P}/….
	Gateway Role = "gateway"
	// Client takes locks without our library: it writes only its own requests,
	// lock/{topic}/client/{P}/…. It reads what a member reads.
	Client Role = "client"
	// Admin reads and writes everything, under any name. It is for operators, not for
	// programs.
	Admin Role = "admin"
)

// noPassword stands for the hash of a user that no password lets in.
const noPassword = "!"

const maxPassword = 72 // bcrypt ignores what is beyond

type account struct {
	hash     []byte
	role     Role
	internal bool // only in-process connections may have it, and it is not saved

	// verified is an HMAC, under a key of this process and those before it that used the same
	// Config.RuntimeDir, of the last password
	// that bcrypt accepted. bcrypt takes tens of milliseconds by design; a
	// thousand clients that reconnect at once must not wait a minute for it.
	verified []byte
}

// Users is a set of names, each with a hashed password and a [Role]. The zero value is
// empty and ready to use. Its methods may be called concurrently, even while a broker uses
// it: a removed user loses access at once.
type Users struct {
	mu       sync.RWMutex
	accounts map[string]*account

	recall  *recall       // where verified outlives the process; nil: nowhere
	changes atomic.Uint64 // of names and roles

	once sync.Once
	key  [32]byte // of verified
}

// LoadUsers reads a file written by [Users.Save]. It has one user per line, as name:hash or
// name:hash:role. The hash is bcrypt's, or ! for a user that has a certificate instead of a
// password. Empty lines and lines that begin with # are skipped. An error names the file
// and the line.
func LoadUsers(path string) (*Users, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUsersFile, err)
	}
	defer f.Close()
	u := &Users{accounts: map[string]*account{}}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := u.parse(line); err != nil {
			return nil, fmt.Errorf("%w: %s:%d: %w", ErrUsersFile, path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUsersFile, path, err)
	}
	return u, nil
}

// Len returns the number of users, without those of [Users.AddInternal].
func (u *Users) Len() (n int) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, a := range u.accounts {
		if !a.internal {
			n++
		}
	}
	return n
}

func (u *Users) parse(line string) error {
	fields := strings.Split(line, ":")
	if len(fields) != 2 && len(fields) != 3 {
		return errors.New("expected name:hash or name:hash:role")
	}
	if err := checkName(fields[0]); err != nil {
		return err
	}
	if _, twice := u.accounts[fields[0]]; twice {
		return fmt.Errorf("user %q stands there twice", fields[0])
	}
	if _, err := bcrypt.Cost([]byte(fields[1])); err != nil && fields[1] != noPassword {
		return fmt.Errorf("user %q has no bcrypt hash: %w", fields[0], err)
	}
	a := &account{hash: []byte(fields[1])}
	if len(fields) == 3 {
		if err := checkRole(Role(fields[2])); err != nil {
			return err
		}
		a.role = Role(fields[2])
	}
	u.accounts[fields[0]] = a
	return nil
}

func checkName(name string) error {
	bad := func(r rune) bool { return r == ':' || unicode.IsControl(r) }
	switch {
	case name == "" || len(name) > 256 || !utf8.ValidString(name):
		return fmt.Errorf("user name %q: want 1 to 256 bytes of UTF-8", name)
	case strings.ContainsFunc(name, bad) || strings.TrimSpace(name) != name || name[0] == '#':
		return fmt.Errorf("user name %q: no colon, control character, leading # or outer space, please", name)
	}
	return nil
}

func checkRole(r Role) error {
	if !slices.Contains([]Role{Member, Observer, Gateway, Client, Admin}, r) {
		return fmt.Errorf("role %q: choose %q, %q, %q, %q, or none for a member", r, Observer, Gateway, Client, Admin)
	}
	return nil
}

// Add adds a user, or changes its password and keeps its role. A password has 1 to 72
// bytes. Add takes tens of milliseconds of processor time, by design.
func (u *Users) Add(name, password string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidUser, err)
	}
	if password == "" || len(password) > maxPassword {
		return fmt.Errorf("%w: the password of %q has %d bytes: choose 1 to %d", ErrInvalidUser, name, len(password), maxPassword)
	}
	if strings.ContainsRune(password, 0) { // bcrypt takes p for p, 0, p
		return fmt.Errorf("%w: the password of %q has a character NUL: choose another", ErrInvalidUser, name)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidUser, err)
	}
	u.set(name, hash)
	return nil
}

// AddCertified adds a user that cannot log in with a password, or removes the password of
// an existing one and keeps its role. See [Config].CertificateUsers.
func (u *Users) AddCertified(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidUser, err)
	}
	u.set(name, []byte(noPassword))
	return nil
}

// AddInternal adds an account for a part of the broker's own process: only connections by
// [Broker.Dial] can use it, with this password. A certificate with its name or its password
// on a listener is not accepted, and Save leaves it out. It is an error if a user of that
// name exists, because that user would get the account's role.
func (u *Users) AddInternal(name, password string, role Role) error {
	if _, taken := u.lookup([]byte(name)); taken {
		return fmt.Errorf("%w: user %q: the name belongs to the broker's own process: remove this user, or give it another name", ErrInvalidUser, name)
	}
	if err := u.Add(name, password); err != nil {
		return err
	}
	u.mu.Lock()
	u.accounts[name].internal = true
	u.mu.Unlock()
	return u.Grant(name, role)
}

func (u *Users) set(name string, hash []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.accounts == nil {
		u.accounts = map[string]*account{}
	}
	next := &account{hash: hash}
	if old := u.accounts[name]; old != nil {
		next.role, next.internal = old.role, old.internal
	}
	u.accounts[name] = next
	u.changes.Add(1)
}

// Grant replaces the role of a user. Its connections have the new rights at once. A
// connection that was made as an observer keeps an observer's limits until it ends.
func (u *Users) Grant(name string, role Role) error {
	if err := checkRole(role); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidUser, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	old := u.accounts[name]
	if old == nil {
		return fmt.Errorf("%w: no user %q: add it first", ErrInvalidUser, name)
	}
	u.accounts[name] = &account{hash: old.hash, role: role, internal: old.internal, verified: old.verified}
	u.changes.Add(1)
	return nil
}

// Remove removes a user and reports whether it existed. A client of that name stays
// connected until it leaves, but can neither read nor write.
func (u *Users) Remove(name string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.accounts[name]
	delete(u.accounts, name)
	u.changes.Add(1)
	return ok
}

// Save writes the users, sorted by name, to a file that only its owner can read. It
// replaces the file completely or not at all.
func (u *Users) Save(path string) error {
	u.mu.RLock()
	var names []string
	for name, a := range u.accounts {
		if !a.internal {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var text bytes.Buffer
	for _, name := range names {
		a := u.accounts[name]
		fmt.Fprintf(&text, "%s:%s", name, a.hash)
		if a.role != Member {
			fmt.Fprintf(&text, ":%s", a.role)
		}
		text.WriteByte('\n')
	}
	u.mu.RUnlock()
	if err := replaceFile(path, &text); err != nil {
		return fmt.Errorf("%w: %w", ErrUsersFile, err)
	}
	return nil
}

func replaceFile(path string, content io.Reader) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails once renamed
	_, err = io.Copy(tmp, content)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func (u *Users) lookup(name []byte) (account, bool) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	a := u.accounts[string(name)]
	if a == nil {
		return account{}, false
	}
	return *a, true
}

// observes reports whether a user may only read; without users everyone may write.
func (u *Users) observes(name []byte) bool { return u.has(name, Observer) }

// has reports whether a user has a role.
func (u *Users) has(name []byte, r Role) bool {
	if u == nil {
		return false
	}
	a, known := u.lookup(name)
	return known && a.role == r
}

// decoy is compared when there is no such user, so that the time of an answer
// does not tell which names exist.
var decoy = sync.OnceValue(func() []byte {
	hash, err := bcrypt.GenerateFromPassword([]byte(rand.Text()), bcrypt.DefaultCost)
	if err != nil {
		panic(err) // the password is of a legal length
	}
	return hash
})

// remembers reports whether bcrypt has accepted the password before.
func (u *Users) remembers(name, password []byte) bool {
	a, known := u.lookup(name)
	return known && hmac.Equal(u.sum(a, password), a.verified)
}

func (u *Users) sum(a account, password []byte) []byte {
	u.once.Do(func() { _, _ = rand.Read(u.key[:]) }) // never fails
	mac := hmac.New(sha256.New, u.key[:])
	mac.Write(a.hash)
	mac.Write(password)
	return mac.Sum(nil)
}

// check reports whether the password, of at most maxPassword bytes, is the user's. It
// takes tens of milliseconds of a processor, by design; see turns.
func (u *Users) check(name, password []byte) bool {
	a, known := u.lookup(name)
	if !known || string(a.hash) == noPassword {
		_ = bcrypt.CompareHashAndPassword(decoy(), password)
		return false
	}
	if bcrypt.CompareHashAndPassword(a.hash, password) != nil {
		return false
	}
	u.remember(string(name), a.hash, u.sum(a, password))
	return true
}

func (u *Users) remember(name string, hash, sum []byte) {
	u.mu.Lock()
	if a := u.accounts[name]; a != nil && bytes.Equal(a.hash, hash) {
		a.verified = sum
	}
	r := u.recall
	u.mu.Unlock()
	if r != nil {
		r.save(u)
	}
}
