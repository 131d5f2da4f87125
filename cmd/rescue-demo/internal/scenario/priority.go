package scenario

// mostSeen survivors make a robot as important as it can be.
const mostSeen = 9

// Priority returns the priority of a robot which sees n survivors: the more, the
// smaller, and so the more important.
func Priority(n int) int64 { return int64(mostSeen - min(max(n, 0), mostSeen)) }

// A Class groups robots by the survivors they see: 0, 1, 2, and 3 or more.
type Class int

// Classes is how many classes there are.
const Classes = 4

// ClassOf returns the class of a robot which sees n survivors.
func ClassOf(n int) Class { return Class(min(max(n, 0), Classes-1)) }

// ClassOfPriority returns the class of a robot with the given Priority.
func ClassOfPriority(priority int64) Class {
	return ClassOf(int(mostSeen - min(max(priority, 0), mostSeen)))
}

func (c Class) String() string { return [Classes]string{"0", "1", "2", "3+"}[c] }

// RootPriority keeps a participant above every robot, so that it stays the root.
const RootPriority = -1_000_000
