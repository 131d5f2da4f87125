package sim

import "strconv"

// Tree returns the participants of a complete tree of n, in breadth-first order
// and named A, B, C … (above 26, n1, n2 …). The priority of each is its depth, so
// that the root is the most important; the root founds the topic. When adaptive
// is set nobody is given a parent, and the tree forms itself.
func Tree(n, fanout int, adaptive bool) []Participant {
	all := make([]Participant, n)
	for i := range all {
		p := &all[i]
		p.ID = treeName(i, n)
		if i == 0 {
			p.Found = true
			continue
		}
		parent := &all[(i-1)/fanout]
		p.Priority = parent.Priority + 1
		if !adaptive {
			p.Parent = parent.ID
		}
	}
	return all
}

func treeName(i, n int) string {
	if n <= 26 {
		return string(rune('A' + i))
	}
	return "n" + strconv.Itoa(i+1)
}
