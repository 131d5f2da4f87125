package broker

import "net"

// tryWrite writes nothing: a goroutine does.
func tryWrite(uintptr, []byte) int { return 0 }

// peerGone is not known: a signature is made for nobody.
func peerGone(net.Conn) bool { return false }
