package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"padme/broker"
	"padme/qosmutex"
	"padme/qosmutex/register/local"
)

// brokerFlags are the flags of `pubsub-node broker`.
type brokerFlags struct {
	topicLimits topicLimitFlags

	listen, webSocket  string
	origins            []string // of pages
	dataDir, usersFile string
	runtimeDir         string
	certUsers          bool
	anonymous          bool
	metrics            metricsFlags
	timing             string
	noLocks, memory    bool
	readyFile          string
	settings           settingsFlags
	limit              limitFlags
	clients            gatewayLimitFlags
	locksIn            string        // where the register is
	newFor             time.Duration // for how long the register is still too new to grant by
}

func newBroker(s *session) *cobra.Command {
	f := &brokerFlags{}
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Run an MQTT broker that also roots locks",
		Long: `broker runs an MQTT 3.1.1 and 5 broker. In the same process a node creates every
lock that is asked for and roots it next to the broker, which halves the way of each
handoff. It also serves clients that speak JSON, as "pubsub-node serve" does. It keeps
a file of who is the root, so that restarting the broker costs no hold: in --data, or
else in $XDG_STATE_HOME/padme/ADDRESS (by default below ~/.local/state).

It listens on this machine only. To let others in, listen on all addresses with
--listen :1883, and say who they are with --users; see broker passwd. With --anonymous
anyone who reaches it may do anything. The --max flags bound what clients can make it
spend: what goes beyond one is logged, and counted in padme_broker_limited_total, and of
clients that speak JSON in qosmutex_gateway_limited_total.
With --cert and --key it speaks TLS only, on both listeners; with --cafile each
client must show a certificate of that authority, too.
INT or TERM ends it in good order.`,
		Example: `  pubsub-node broker
  pubsub-node broker --listen :1883 --users users --data /var/lib/padme
  pubsub-node broker --listen :8883 --cert host.pem --key host.key --users users --metrics 127.0.0.1:9100
  pubsub-node broker --listen :8883 --cert host.pem --key host.key --cafile clients.pem --use-identity-as-username --users users`,
		Args:              noArgs,
		PersistentPreRunE: refuseClientFlags,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, sigs := watchSignals(cmd.Context())
			defer sigs.stop()
			return f.run(ctx, s, cmd.OutOrStdout())
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:1883", "`address` for MQTT; :1883 is open to the network, port 0 takes a free one")
	fs.StringVar(&f.webSocket, "ws", "", "`address` for MQTT over WebSocket (default: none)")
	fs.StringSliceVar(&f.origins, "ws-origin", nil, "`origin` of a page that may connect over WebSocket, such as https://panel.example; others may if they need a password, else those of the same host")
	fs.StringVar(&f.dataDir, "data", "", "`directory` where locks, retained messages and sessions survive a crash (default: messages and sessions in memory only)")
	fs.StringVar(&f.usersFile, "users", "", "`file` of users; only they may connect (default: anyone on this machine, who may do anything)")
	fs.StringVar(&f.runtimeDir, "runtime-dir", "", "`directory` of its own, in memory (a tmpfs), where it knows again after a restart whose password was right (default: $RUNTIME_DIRECTORY, which systemd sets, or none)")
	fs.BoolVar(&f.anonymous, "anonymous", false, "let anyone who reaches the addresses do anything, also from the network")
	fs.BoolVar(&f.certUsers, "use-identity-as-username", false, "the common name of a client's certificate is its user, who must be in --users; needs --cafile")
	f.metrics.add(cmd)
	fs.StringVar(&f.timing, "timing", "lan", "how soon a silent lock holder counts as dead: local (1s), lan (3s) or wan (15s)")
	fs.BoolVar(&f.noLocks, "no-locks", false, "do not create locks nor serve clients: only the broker")
	fs.BoolVar(&f.memory, "memory", false, "keep nothing of the locks: a restart ends the locks of \"pubsub-node lock\" and other clients, and nothing is granted for the time of --timing after it (default with port 0 and no --data)")
	fs.StringVar(&f.readyFile, "ready-file", "", "`file` that gets the broker's URL once it serves")
	f.settings.add(cmd, " of locks that it creates, until others are declared")
	f.limit.add(fs)
	f.settings.addTTL(cmd, "of locks that it creates: how soon a silent holder counts as dead, in place of that of --timing")
	f.topicLimits.add(cmd)
	f.clients.add(cmd)
	cmd.AddCommand(newPasswd(s))
	return cmd
}

// refuseClientFlags: a flag that would be ignored is an error.
func refuseClientFlags(cmd *cobra.Command, _ []string) error {
	for _, name := range []string{"broker", "id", "user", "password-file"} {
		if own := name == "password-file" && cmd.Name() == "passwd"; cmd.Flags().Changed(name) && !own {
			return usageError("--%s is for clients: the broker has --users", name)
		}
	}
	return nil
}

func (f *brokerFlags) run(ctx context.Context, s *session, stdout io.Writer) (err error) {
	timing, err := parseTiming(f.timing)
	if err != nil {
		return err
	}
	if timing, err = f.settings.timing(timing); err != nil {
		return err
	}
	settings, err := f.settings.options()
	if err != nil {
		return err
	}
	topicLimits, err := f.topicLimits.option(f.metrics.named)
	if err != nil {
		return err
	}
	if f.noLocks && f.topicLimits.given() {
		return usageError("--max-topics, --max-topics-per-user and --idle-topics are of locks that the broker creates, and with --no-locks it creates none")
	}
	clients, err := f.clients.option()
	if err != nil {
		return err
	}
	if flag := f.clients.given(); f.noLocks && flag != "" {
		return usageError("--%s is about clients that speak JSON, which ask for locks, and with --no-locks nobody serves them", flag)
	}
	if f.noLocks && f.metrics.given("max-metrics-locks") {
		return usageError("--max-metrics-locks is about locks that the broker creates, and with --no-locks it creates none")
	}
	if f.noLocks && (len(settings) > 0 || f.settings.ttl > 0) {
		return usageError("--models, --resources, --open and --ttl are of locks that the broker creates, and with --no-locks it creates none")
	}
	for _, o := range f.origins {
		if u, err := url.Parse(o); err != nil || u.Host == "" || o != u.Scheme+"://"+u.Host {
			return usageError("--ws-origin %q: write it as browsers do, https://host or https://host:port", o)
		}
	}
	if len(f.origins) > 0 && f.webSocket == "" {
		return usageError("--ws-origin is about pages that connect to --ws, which is not given")
	}
	for flag, address := range map[string]string{"listen": f.listen, "ws": f.webSocket} {
		if err := checkAddress(flag, address); err != nil {
			return err
		}
	}
	if err := errors.Join(f.metrics.check(), f.limit.check(), f.checkQueue(), f.checkOpen()); err != nil {
		return err
	}
	if f.runtimeDir != "" && f.usersFile == "" {
		return usageError("--runtime-dir is about passwords, and without --users there are none")
	}
	users, secret, err := f.users()
	if err != nil {
		return err
	}
	config := broker.Config{
		TCP: f.listen, WebSocket: f.webSocket, Origins: f.origins, Users: users, DataDir: f.dataDir, Prefix: s.prefix,
		RuntimeDir: f.memoryDir(), Limits: f.limit.limits, Logger: s.logger(slog.LevelWarn),
	}
	if config.TLS, err = s.serverTLS(); err != nil {
		return err
	}
	if config.CertificateUsers = f.certUsers; f.certUsers && (s.ca == "" || f.usersFile == "") {
		return usageError("--use-identity-as-username needs --cafile, whose certificates are believed, and --users, who may connect")
	}
	registry := metricsOfProcess()
	if f.metrics.address != "" {
		config.Metrics = registry
	}
	heard := make(chan struct{}) // closed when the lock node has subscribed: what clients publish before is lost
	config.Wait = heard
	b, err := broker.Start(ctx, config)
	if err != nil {
		return fmt.Errorf("%w%s", err, f.remedy(err))
	}
	closeBroker := sync.OnceValue(func() error { return closeWithin(b.Close) })
	defer func() { err = errors.Join(err, closeBroker()) }()
	if f.metrics.address != "" {
		stop, err := f.metrics.serve(ctx, registry, config.Logger)
		if err != nil {
			return err
		}
		defer stop()
	}
	locks := make(chan error, 2)
	var ended <-chan struct{} // the locks cannot be kept any more
	var keptIn *local.Register
	if !f.noLocks {
		f.checkRoom(config.Logger)
		r, where, openErr := brokerRegister(f.dataDir, f.listen, f.memory)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		f.locksIn, f.newFor = where, timing.Grace()-r.Age()
		keptIn, ended = r, r.Done()
		stop, err := serveLocks(ctx, s, b, r, secret, append(settings, qosmutex.WithTiming(timing), topicLimits), clients, config.Metrics, locks)
		if err != nil {
			return f.tooTight(b, err)
		}
		defer stop()
		// The connections go first, as in a crash: the record keeps naming this
		// node, which takes its place again at once when it is started again. An
		// orderly leave would hand the lock topics over to other candidates.
		defer func() { _ = closeBroker() }()
	}
	close(heard)
	nobody := users != nil && users.Len() == 0
	f.welcome(stdout, b, timing, s.cert == "", nobody)
	if nobody {
		fmt.Fprintf(os.Stderr, "pubsub-node: nobody can log in, as --users %[1]s names nobody: stop the broker, add a user with \"pubsub-node broker passwd %[1]s NAME\" and start it again\n", printable(f.usersFile))
	}
	if err := f.ready(b.URL()); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
		return keptNoMore(keptIn, f.locksIn, "broker")
	case err := <-locks:
		return fmt.Errorf("the lock node has ended: %w", err)
	}
}

// checkAddress refuses a URL, an address without a port, a port without its colon and an
// IPv6 address without its brackets. It leaves what a system finds wrong with another one
// to it.
func checkAddress(flag, address string) error {
	if strings.Contains(address, "://") {
		if u, err := url.Parse(address); err == nil && u.Port() != "" {
			return usageError("--%s is an address, not a URL: write %s", flag, u.Host)
		}
		return usageError("--%s is an address, not a URL: write it as in 127.0.0.1:1883", flag)
	}
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		return usageError("--%s %s: write an IPv6 address in brackets, and its port after them, as in [::1]:1883", flag, address)
	}
	if address == "" || strings.Contains(address, ":") {
		return nil
	}
	if _, err := strconv.ParseUint(address, 10, 16); err == nil {
		return usageError("--%s %s: write 127.0.0.1:%s for this machine only, or :%s to let others in", flag, address, address, address)
	}
	return usageError("--%s %s: add a port, as in %s:1883", flag, address, address)
}

// remedy adds what to do about an address that cannot be listened on.
func (f *brokerFlags) remedy(err error) string {
	switch {
	case !errors.Is(err, broker.ErrListen):
		return ""
	case errors.Is(err, syscall.EADDRINUSE):
		return ": is another broker running there? Stop it, or give another --listen or --ws address; port 0 takes a free one"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": this machine has no such address: give --listen or --ws one that it has, such as 127.0.0.1"
	case errors.Is(err, fs.ErrPermission):
		return ": give --listen or --ws a port above 1023"
	}
	return ": correct --listen or --ws"
}

func parseTiming(name string) (qosmutex.Timing, error) {
	switch name {
	case "lan":
		return qosmutex.LAN(), nil
	case "wan":
		return qosmutex.WAN(), nil
	case "local":
		return qosmutex.Local(), nil
	}
	return qosmutex.Timing{}, usageError("--timing %q: choose lan, wan or local", name)
}

// users loads the users file and adds the account of our own node, which
// nobody else can have. It is never saved.
func (f *brokerFlags) users() (*broker.Users, string, error) {
	if f.usersFile == "" {
		return nil, "", nil
	}
	users, err := broker.LoadUsers(f.usersFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", fmt.Errorf("%w: make it with \"pubsub-node broker passwd %s NAME\"", err, f.usersFile)
	}
	if err != nil {
		return nil, "", err
	}
	secret := rand.Text()
	if err := users.AddInternal(nodeName(), secret, broker.Gateway); err != nil {
		return nil, "", fmt.Errorf("--users %s: %w", f.usersFile, err)
	}
	return users, secret, nil
}

// memoryDir is the broker's directory in memory: systemd names the unit's own, of which there may
// be several.
func (f *brokerFlags) memoryDir() string {
	if f.runtimeDir != "" {
		return f.runtimeDir
	}
	first, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":")
	return first
}

// welcome says what is served and how to use it, unless nobody can.
func (f *brokerFlags) welcome(w io.Writer, b *broker.Broker, timing qosmutex.Timing, plain, nobody bool) {
	where := b.URL()
	if where != "" {
		fmt.Fprintf(w, "mqtt     %s\n", where)
	}
	if a := b.WebSocketAddr(); a != nil {
		fmt.Fprintf(w, "ws       %s\n", a)
	}
	if f.metrics.address != "" {
		fmt.Fprintf(w, "metrics  http://%s/metrics\n", f.metrics.address)
	}
	if !f.noLocks {
		fmt.Fprintf(w, "locks    created when asked for; a silent holder loses its lock after %v; kept in %s\n", timing.TTL, f.locksIn)
		if f.locksIn == inMemory {
			fmt.Fprintln(w, "         so a restart ends those of commands and other clients")
		}
		if f.newFor > 0 {
			fmt.Fprintf(w, "         locks that are not in it yet are granted from %.1fs on: until then another broker may be granting them\n", f.newFor.Seconds())
		}
	}
	u, err := url.Parse(where)
	if err != nil || u.Port() == "" || nobody {
		return
	}
	flag := ""
	if u.Port() != "1883" {
		flag = " --broker " + where
	}
	fmt.Fprintf(w, "try      pubsub-node%s lock crane -- sh -c 'echo in; sleep 2; echo out'\n", flag)
	if plain && f.usersFile == "" {
		fmt.Fprintf(w, "watch    mosquitto_sub -h %s -p %s -t '#' -v\n", u.Hostname(), u.Port())
	}
}

// ready tells by a file, complete or not there, that clients may come.
func (f *brokerFlags) ready(where string) error {
	if f.readyFile == "" {
		return nil
	}
	next := f.readyFile + ".new"
	err := os.WriteFile(next, []byte(where+"\n"), 0o644)
	if err == nil {
		err = os.Rename(next, f.readyFile)
	}
	if err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	return nil
}

// closeWithin gives a graceful end five seconds.
func closeWithin(end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return end(ctx)
}
