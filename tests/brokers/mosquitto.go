package brokers

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"padme/tests/address"
)

// mosquitto prepares one whose retained messages outlive kill -9. It writes
// everything that it has at every change: a thousand messages take seconds.
func mosquitto(s *Server, dir string) error {
	return mosquittoWith(s, dir, "persistence true\npersistence_location "+dir+"/\nautosave_interval 1\nautosave_on_changes true\n")
}

// forgetfulMosquitto prepares one that is not killed.
func forgetfulMosquitto(s *Server, dir string) error { return mosquittoWith(s, dir, "") }

// mosquittoWith adds lines to the configuration. Without set_tcp_nodelay a QoS 1
// round trip takes 44 ms.
func mosquittoWith(s *Server, dir, lines string) error {
	binary, err := exec.LookPath("mosquitto")
	if err != nil {
		binary, err = exec.LookPath("/usr/sbin/mosquitto") // not on everybody's path
	}
	if err != nil {
		return fmt.Errorf("%w: %w: apt-get install mosquitto", ErrMissing, err)
	}
	free, err := address.List(1)
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "mosquitto.conf")
	text := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nuser root\n%s", port(free[0]), lines)
	s.nodes = []*node{{free[0], process{command: []string{binary, "-c", config}, log: filepath.Join(dir, "log")}}}
	return write(config, text)
}
