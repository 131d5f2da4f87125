// Package realrun runs a scenario of the simulator over the real stack: a broker in this
// process, and a process with an MQTT connection and a lock topic for each participant, which
// makes the requests that the simulator would make. Messages between participants take as long
// as the scenario says. What the broker and the processes add to that is measured during the run.
package realrun
