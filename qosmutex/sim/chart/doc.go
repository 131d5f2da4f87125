// Package chart draws the results of simulations as SVG or PNG: grouped [Bars] and
// [Lines]. There is one style, for white paper: colors that also differ in gray,
// and with each a second sign, a hatching or a dash and a mark. The fonts come with
// the package; the same chart gives the same bytes everywhere.
package chart
