// Package fence guards what a lock protects. A holder that was paused or cut off
// may go on working after its lock was lost; a [Guard] on the resource's side
// remembers the highest fence for each resource and refuses lower ones, so that
// such a holder changes nothing.
//
// # Present the fence at the first access
//
// A guard knows of a new holder once it has seen its fence, not before. So each
// holder presents its fence whenever it touches the resource, the first reading
// included: what it read can then no longer be changed by its predecessors. A
// holder that presents it only when it writes may overwrite what one of them
// wrote meanwhile.
//
// # Check and access are one step
//
// [Guard.Do] compares the fence and runs the access before it looks at another
// one. [Guard.Admit] only compares, and is for a caller that handles one access
// after the other anyway, as a gateway to a PLC does with one loop.
package fence
