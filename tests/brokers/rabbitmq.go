package brokers

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"padme/tests/address"
)

// rabbitMQ prepares one RabbitMQ with its MQTT plug-in, as the user of the tests:
// Debian's command on the path would change to a user of its own.
func rabbitMQ(s *Server, dir string) error {
	binary, err := exec.LookPath("/usr/lib/rabbitmq/bin/rabbitmq-server")
	if err != nil {
		binary, err = exec.LookPath("rabbitmq-server")
	}
	if err != nil {
		return fmt.Errorf("%w: %w: apt-get install rabbitmq-server", ErrMissing, err)
	}
	free, err := address.List(3)
	if err != nil {
		return err
	}
	mqtt, names, dist := free[0], free[1], free[2]
	config, plugins := filepath.Join(dir, "rabbitmq.conf"), filepath.Join(dir, "plugins")
	env := []string{
		"HOME=" + dir, // the node's cookie
		"RABBITMQ_NODENAME=padme-" + port(mqtt) + "@localhost",
		"RABBITMQ_CONFIG_FILE=" + config,
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(dir, "data"),
		"RABBITMQ_LOGS=-",
		"RABBITMQ_DIST_PORT=" + port(dist),
		"ERL_EPMD_PORT=" + port(names),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RUNNING_UNDER_SYSTEMD=1", // the server takes the place of the script, and can be killed
	}
	// The node would start a name server of its own, which outlives it.
	s.helpers = []*process{{command: []string{"epmd"}, env: env, log: filepath.Join(dir, "epmd.log")}}
	s.nodes = []*node{{mqtt, process{command: []string{binary}, env: env, log: filepath.Join(dir, "log")}}}
	if err := write(plugins, "[rabbitmq_mqtt].\n"); err != nil {
		return err
	}
	return write(config, fmt.Sprintf("listeners.tcp = none\nmqtt.listeners.tcp.1 = %s\nmqtt.allow_anonymous = true\nmqtt.tcp_listen_options.nodelay = true\n", mqtt))
}
