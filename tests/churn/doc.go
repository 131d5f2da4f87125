// Package churn runs what users deploy, as processes on one machine: a broker, two that
// serve, programs that stay and commands that come and go all the time. It measures the
// longest time in which nobody entered a lock that many wanted.
//
//	go test ./tests/churn -v                                  # 20 s, without a fault
//	make churn DURATION=10m                                   # as long as is wanted
//	make churn DURATION=10m KILL=1                            # and a process is killed now and then
//	make churn DURATION=10m VOTERS=1                          # on mosquitto; three that serve are the voters
package churn
