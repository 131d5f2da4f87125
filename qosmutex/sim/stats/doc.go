// Package stats says how sure a mean of runs with different seeds is: means, deviations, and
// intervals of Student's t. A library for it would bring all of linear algebra along.
package stats
