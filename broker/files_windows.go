package broker

import "io/fs"

// openFiles returns 0: not known.
func openFiles() uint64 { return 0 }

// ours reports true: who may write a file stands in its access list, which it has of its directory.
func ours(fs.FileInfo, fs.FileMode) bool { return true }
