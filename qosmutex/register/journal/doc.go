// Package journal is a file of records that survive kill -9 and a power cut. The
// registers keep what they must not forget in one.
//
// The file is a log: one frame for each Append, with its length and checksum, synced
// before Append returns. When it has grown, Compact replaces it by a new one. So it
// is always a whole one, but for the last frame, which a crash may have cut short; a
// frame that was cut short was never acknowledged, and is dropped.
//
// What need only outlive the process, as long as the machine runs, is written to a file
// next to it, path + ".unsynced", without a sync. The next run is told whether all of it
// is there: the file names the run of the machine, and how often the journal was opened.
//
// A file that is removed while it is open is recreated by Look, as no copy of it can come back.
// One that was moved, or whose volume was unmounted, is not: it may come back, without what was
// written since.
//
// # What is refused
//
// A file that another process has open, that is no journal or one of another kind,
// that is damaged before its end, or that is a copy: one that was restored from a
// backup would forget what was acknowledged since. A copy is known by its inode,
// which the file names, and by the number of times that it was opened, which a file
// next to it, path + ".lock", counts, too. Both files belong together; a journal
// cannot be moved to another file system. A copy that was put in the place of both
// files byte by byte is not known.
package journal
