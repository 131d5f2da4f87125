// Package browser holds tests that look at the pages of the commands with a real
// browser: Debian's chromium, driven by playwright-core. harness_test.go is for all
// pages; every other file is about one.
package browser
