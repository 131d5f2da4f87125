// Package promises tests what the publish/subscribe layer promises to the programs that
// use it, at the embedded broker and at mosquitto, in real time and through its public
// interface alone. Each test holds one of the findings that programs written from outside
// have made; docs/robustness.md lists them.
package promises
