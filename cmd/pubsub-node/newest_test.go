package main

import (
	"net"
	"testing"
)

func TestTheOldestMakesRoom(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	var full []net.Conn
	l := &newest{Listener: inner, most: 2, full: func(c net.Conn) { full = append(full, c) }}
	var theirs, ours [4]net.Conn
	come := func(i int) {
		t.Helper()
		if theirs[i], err = net.Dial("tcp", inner.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if ours[i], err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	come(0)
	come(1)
	_ = ours[1].Close() // whoever leaves makes room as well
	come(2)
	come(3)
	for i, open := range []bool{false, false, true, true} {
		if _, err := ours[i].Write([]byte("x")); (err == nil) != open {
			t.Errorf("connection %d: %v", i, err)
		}
		_ = theirs[i].Close()
		_ = ours[i].Close()
	}
	if len(full) != 1 || full[0].RemoteAddr().String() != theirs[0].LocalAddr().String() {
		t.Errorf("%d made room", len(full))
	}
	if len(l.kept) != 0 {
		t.Errorf("%d are kept", len(l.kept))
	}
	_ = inner.Close()
	if _, err := l.Accept(); err == nil {
		t.Error("accepted after the end")
	}
}
