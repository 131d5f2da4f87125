//go:build linux

package hostile

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"padme/pubsub"
	"padme/tests/certs"
	"padme/tests/extent"
)

func init() { attackers["hellos"] = sendHellos }

// sendHellos begins a TLS handshake on a hundred connections at a time, again and again, and
// leaves before it is answered. To have it signed costs the node some milliseconds; to ask for
// it costs a replay.
func sendHellos(addr, _ string) error {
	hello := &recorder{}
	if err := tls.Client(hello, &tls.Config{InsecureSkipVerify: true}).Handshake(); !errors.Is(err, errRecorded) {
		return err
	}
	for range 100 {
		go func() {
			for {
				if c, err := net.Dial("tcp", addr); err == nil {
					_, _ = c.Write(hello.Bytes())
					_ = c.Close()
				}
			}
		}()
	}
	return nil
}

var errRecorded = errors.New("recorded")

// recorder keeps what is written to it, and answers nothing.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) { return r.Buffer.Write(p) }
func (r *recorder) Read([]byte) (int, error)    { return 0, errRecorded }
func (r *recorder) Close() error                { return nil }

// startSecureNode starts a node that speaks TLS with a key.
func startSecureNode(t *testing.T, key crypto.Signer) *node {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := certs.WritePair(dir, "node", tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, "--cert", filepath.Join(dir, "node.pem"), "--key", filepath.Join(dir, "node.key"))
	n.tls = &tls.Config{RootCAs: x509.NewCertPool()}
	n.tls.RootCAs.AddCert(leaf)
	return n
}

// A stranger has nothing but the address. Members lock on, and others come in.
func TestTLSHellos(t *testing.T) {
	extent.Long(t, "thousands of handshakes")
	key, err := rsa.GenerateKey(rand.Reader, 4096) // a signature takes longer than with any other
	if err != nil {
		t.Fatal(err)
	}
	lockDuring(t, startSecureNode(t, key), "hellos")
}

// lockDuring attacks a node in whose locks members are, and has another one join.
func lockDuring(t *testing.T, n *node, attack string) {
	t.Helper()
	h := startHonest(t, n)
	h.goOn(t)
	base, cut, cpu := n.memory(t, "VmRSS"), n.sum(t, "padme_broker_cut_total"), n.cpu(t)
	type arrival struct {
		took time.Duration
		err  error
	}
	came := make(chan arrival, 1)
	h.during(t, func() {
		time.AfterFunc(flooded/2, func() {
			began := time.Now()
			p, err := pubsub.Join(t.Context(), n.url(), "mallory", n.credentials("mallory")...)
			for errors.Is(err, pubsub.ErrUnreachable) && time.Since(began) < 2*flooded { // as the error says: its place was taken
				p, err = pubsub.Join(t.Context(), n.url(), "mallory", n.credentials("mallory")...)
			}
			came <- arrival{time.Since(began), errors.Join(err, p.Close(t.Context()))}
		})
		n.attack(t, attack)
	})
	late := <-came
	if late.err != nil {
		t.Errorf("a member that came meanwhile: %v", late.err)
	}
	t.Logf("%.0f connections were cut in %v, %.1f s of processor; a member that came meanwhile joined after %v; resident %d MB more at most",
		n.sum(t, "padme_broker_cut_total")-cut, flooded, (n.cpu(t) - cpu).Seconds(), late.took.Round(time.Millisecond), (n.memory(t, "VmHWM")-base)>>20)
}
