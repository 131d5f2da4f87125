// Package plan recommends an algorithm, the models of PADME and a fan-out for a workload. It
// refuses what cannot meet the requirements by what is known of it, simulates the others
// (package sim) with the same requests for all, and spends its budget on those that are hard
// to tell apart: successive halving first, then optimal computing budget allocation among the
// last (Chen, Lin, Yücesan and Chick, 2000), until the choice is right with a probability of
// 95 % or the budget ends. What it predicts comes from other seeds than those it chose by.
//
// It is for people who choose, and for their tools; nothing that grants a lock imports it.
// The same [Problem] gives the same [Plan] as long as its budget is a number of runs.
package plan
