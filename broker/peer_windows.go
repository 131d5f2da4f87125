package broker

import "net"

// peerGone does not know: what was read is processed.
func peerGone(net.Conn) bool { return false }
