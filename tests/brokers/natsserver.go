package brokers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"padme/tests/address"
)

// nats prepares three NATS servers with JetStream, which keep every MQTT session
// and retained message three times. After the death of a server, one in three new
// subscriptions is led by the dead one, and is refused after js_api_timeout. Its
// five seconds are left alone: with two, a busy machine refuses what it could grant.
func nats(s *Server, dir string) error {
	binary, err := natsBinary()
	if err != nil {
		return err
	}
	const servers = 3
	free, err := address.List(3 * servers)
	if err != nil {
		return err
	}
	mqtt, cluster, client := free[:servers], free[servers:2*servers], free[2*servers:]
	for i := range servers {
		own := filepath.Join(dir, fmt.Sprintf("n%d", i+1))
		config := filepath.Join(own, "nats.conf")
		text := fmt.Sprintf("server_name: n%d\nlisten: %q\njetstream { store_dir: %q }\nmqtt { listen: %q }\n"+
			"cluster { name: padme, listen: %q, routes: [ nats://%s ] }\n",
			i+1, client[i], own, mqtt[i], cluster[i], strings.Join(cluster, ", nats://"))
		if err := write(config, text); err != nil {
			return err
		}
		s.nodes = append(s.nodes, &node{mqtt[i], process{command: []string{binary, "-c", config}, log: filepath.Join(own, "log")}})
	}
	return nil
}

// natsBinary builds the server from a module of its own, so that its
// dependencies are not ours, and returns where the build cache has it.
func natsBinary() (string, error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	build := exec.Command("go", "tool", "-n", "nats-server")
	build.Dir = filepath.Join(root, "tests", "brokers", "nats")
	build.Env = append(os.Environ(), "GOFLAGS=")
	build.Stderr = os.Stderr
	path, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("%w: it cannot be built: %w", ErrMissing, err)
	}
	return strings.TrimSpace(string(path)), nil
}
