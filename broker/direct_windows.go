package broker

// tryWrite writes nothing: a goroutine does.
func tryWrite(uintptr, []byte) int { return 0 }
