// Package brokers starts and stops the brokers that the tests run against, as
// real processes with data and ports of their own: mosquitto, RabbitMQ with its
// MQTT plug-in, and three NATS servers that share MQTT sessions over JetStream.
//
// The environment variable PADME_BROKER chooses one for the tests of other
// packages (embedded, mosquitto, rabbitmq, nats); without it they run against
// the embedded broker. What stays on the embedded broker all the same says why,
// and [Report] prints it: nothing is left out silently.
package brokers
