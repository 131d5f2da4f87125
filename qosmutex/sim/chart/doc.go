// Package chart draws the results of simulations as SVG or PNG: grouped [Bars] and
// [Lines]. There is one style, for white paper: colours that also differ in grey,
// and with each a second sign, a hatching or a dash and a mark. The fonts come with
// the package; the same chart gives the same bytes everywhere.
package chart
