package broker

// openFiles returns 0: not known.
func openFiles() uint64 { return 0 }
